"""A real Git server over https: git's own http-backend behind a small server that can also ask for a token, redirect, stall or break off."""

from __future__ import annotations

import base64
import datetime as dt
import gzip
import ipaddress
import ssl
import subprocess
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from git_upstream import ENV


@dataclass
class Behaviour:
    """How the server answers; tests change it while it runs."""

    token: str | None = None
    redirect_to: str | None = None
    status: int | None = None
    dribble: bool = False
    cut_after_bytes: int | None = None
    echo_authorization: bool = False
    requests: list[tuple[str, str | None]] = field(default_factory=list)


class GitServer:
    """Serves all repositories under a folder at https://127.0.0.1:<port>/."""

    def __init__(self, root: Path, tls: Path) -> None:
        self.root = root
        self.behaviour = Behaviour()
        self.ca_file = tls / "ca.pem"
        certificate, key = _issue(tls)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.stopping = threading.Event()
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.git_server = self
        self._http.socket = context.wrap_socket(self._http.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"https://127.0.0.1:{self._http.server_port}"

    def url(self, bare: Path) -> str:
        return f"{self.address}/{bare.relative_to(self.root)}"

    def stop(self) -> None:
        self.stopping.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True
    git_server: GitServer

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that are cut off are what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"
    server: _Server
    timeout = 30

    def log_message(self, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self._body())

    def _answer(self, body: bytes) -> None:
        behaviour = self.server.git_server.behaviour
        authorization = self.headers.get("Authorization")
        behaviour.requests.append((self.path, authorization))
        if behaviour.redirect_to is not None:
            self._plain(302, {"Location": behaviour.redirect_to + self.path})
        elif behaviour.token is not None and not self._signed_in(authorization, behaviour.token):
            said = authorization or "" if behaviour.echo_authorization else ""
            self._plain(401, {"WWW-Authenticate": 'Basic realm="git"'}, f"no entry for {said}".encode())
        elif behaviour.status is not None:
            self._plain(behaviour.status, {})
        elif behaviour.dribble:
            self._dribble()
        else:
            self._backend(body, behaviour.cut_after_bytes)

    @staticmethod
    def _signed_in(authorization: str | None, token: str) -> bool:
        scheme, _, given = (authorization or "").partition(" ")
        return scheme == "Basic" and base64.b64decode(given).decode().partition(":")[2] == token

    def _plain(self, status: int, headers: dict[str, str], text: bytes = b"") -> None:
        self.send_response(status)
        for name, value in ({"Content-Type": "text/plain", "Content-Length": str(len(text))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def _dribble(self) -> None:
        """Answer well-formed lines of the protocol, one byte at a time, for as long as someone listens."""
        self.send_response(200)
        self.send_header("Content-Type", "application/x-git-upload-pack-advertisement")
        self.end_headers()
        text = b"001e# service=git-upload-pack\n0000" + b"000eversion 2\n" * 1000
        for byte in text:
            self.wfile.write(bytes([byte]))
            self.wfile.flush()
            if self.server.git_server.stopping.wait(0.2):
                return

    def _backend(self, body: bytes, cut_after_bytes: int | None) -> None:
        path, _, query = self.path.partition("?")
        env = ENV | {
            "GIT_PROJECT_ROOT": str(self.server.git_server.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "REMOTE_USER": "tester",
            "REMOTE_ADDR": "127.0.0.1",
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        done = subprocess.run(["git", "http-backend"], env=env, input=body, capture_output=True, check=False, timeout=100)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content if cut_after_bytes is None or self.command == "GET" else content[:cut_after_bytes])

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline().strip() or b"0", 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        return gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body


def _issue(folder: Path) -> tuple[Path, Path]:
    """Make a CA (`ca.pem`) and a certificate for 127.0.0.1 and localhost signed by it."""
    folder.mkdir(parents=True, exist_ok=True)
    now = dt.datetime.now(dt.UTC)
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test CA")])

    def builder(subject: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(ca_name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=1))
        )

    ca = (
        builder(ca_name, ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    leaf = builder(subject, key.public_key()).add_extension(names, critical=False).sign(ca_key, hashes.SHA256())
    (folder / "ca.pem").write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    certificate, key_file = folder / "server.pem", folder / "server.key"
    certificate.write_bytes(leaf.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return certificate, key_file
