"""A TLS server that answers as a test says, byte by byte; for what the simulated servers never do."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable

from kubehenge.lab.pki import CertificateAuthority

Answer = Callable[[socket.socket, bytes], bool]
"""Given a connection and the head of a request; answers, and says whether the connection stays open."""


def json_answer(body: str, *, status: str = "200 OK", headers: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body.encode())}\r\n{headers}\r\n"
    return head.encode() + body.encode()


def begin_stream(conn: socket.socket) -> None:
    """Begin an answer that comes in pieces, as a watch's does."""
    conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")


def send_piece(conn: socket.socket, text: str) -> None:
    """Send a piece of it; '' ends the answer."""
    conn.sendall(f"{len(text.encode()):x}\r\n{text}\r\n".encode())


class RawServer:
    """Counts connections and requests; `answer` may be changed while it runs."""

    def __init__(self, ca: CertificateAuthority, answer: Answer, *, leaf: str = "raw", tls: ssl.SSLContext | None = None) -> None:
        self.answer = answer
        self.connections = 0
        self.requests: list[str] = []
        self._tls = tls or ca.leaf(leaf).server_context()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(plain,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        try:
            with self._tls.wrap_socket(plain, server_side=True) as conn:
                self.connections += 1
                self._open.append(conn)
                while head := self._head(conn):
                    self.requests.append(head.partition(b"\r\n")[0].decode().removesuffix(" HTTP/1.1"))
                    if not self.answer(conn, head):
                        return
        except OSError:
            return

    @staticmethod
    def _head(conn: socket.socket) -> bytes:
        """A whole request, with the body that its head announces."""
        whole = b""
        while b"\r\n\r\n" not in whole:
            part = conn.recv(65536)
            if not part:
                return b""
            whole += part
        head, _, body = whole.partition(b"\r\n\r\n")
        announced = [int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
        while len(body) < sum(announced):
            body += conn.recv(65536)
        return head + b"\r\n\r\n" + body

    def drop_connections(self) -> None:
        """Close every connection without a word, as a server does with idle ones."""
        for conn in self._open:
            try:
                conn.shutdown(socket.SHUT_RDWR)
                conn.close()
            except OSError:
                pass
        self._open.clear()

    def close(self) -> None:
        self._listener.close()
        self.drop_connections()
