"""What a connection that failed means: nobody there, too slow, or which certificate is wrong and what to do about it."""

from __future__ import annotations

import re
from typing import NamedTuple

import urllib3

from kubehenge.errors import KubehengeError, TransientError, UncertainError


class Trouble(NamedTuple):
    """Why no answer came, and what to do; `unsent` says that the request certainly did not leave, `certificate` that one is wrong."""

    words: str
    advice: str
    unsent: bool = False
    certificate: bool = False


_RETRIED = "It is tried again."
_NOTHING_SENT = "Nothing is sent to it until then; it is tried again by itself."

# OpenSSL's words, which Python passes on (3.0 to 3.5).
_CERTIFICATES: tuple[tuple[str, str, str], ...] = (
    (
        "certificate has expired",
        "its certificate has expired",
        f"Renew the API server's certificate, or set this machine's clock right. {_NOTHING_SENT}",
    ),
    (
        "certificate is not yet valid",
        "its certificate is not valid yet",
        f"Set the clocks of both machines right. {_NOTHING_SENT}",
    ),
    (
        "certificate is not valid for",
        "its certificate is for another name",
        f"Name the API server in the kubeconfig as its certificate does, or set tls-server-name there. {_NOTHING_SENT}",
    ),
    (
        "CERTIFICATE_VERIFY_FAILED",
        "its certificate is not signed by the kubeconfig's CA",
        f"If the management cluster has a new CA, put that into the kubeconfig; if not, something else answers there. {_NOTHING_SENT}",
    ),
    (
        "WRONG_VERSION_NUMBER",
        "what answers there does not speak TLS",
        f"Look at the address in the kubeconfig. {_NOTHING_SENT}",
    ),
)
_ALERT = re.compile(r"\] (?P<alert>\w+ alert [a-z ]+)")


def trouble_of(exc: Exception) -> Trouble:
    """Return what an exception of the transport means."""
    text = str(exc)
    if isinstance(exc, urllib3.exceptions.SSLError) or "SSL" in text:
        for sign, words, advice in _CERTIFICATES:
            if sign in text:
                return Trouble(words, advice, unsent=True, certificate=True)
        if alert := _ALERT.search(text):
            advice = f"Look at the client certificate in the kubeconfig: it may have expired, or be of another CA. {_NOTHING_SENT}"
            return Trouble(f"it ended the TLS handshake: {alert['alert'].strip()}", advice, unsent=True, certificate=True)
    if isinstance(exc, urllib3.exceptions.NameResolutionError):
        return Trouble("its name is not known to the DNS", f"Look at the address in the kubeconfig. {_RETRIED}", unsent=True)
    if isinstance(exc, urllib3.exceptions.NewConnectionError):
        return Trouble(text.rpartition(": ")[2] or text, _RETRIED, unsent=True)
    if isinstance(exc, urllib3.exceptions.ConnectTimeoutError):
        return Trouble("no connection within the time limit", _RETRIED, unsent=True)
    if isinstance(exc, (urllib3.exceptions.TimeoutError, TimeoutError)):
        return Trouble("no answer within the time limit", _RETRIED)
    return Trouble("the connection was closed in between", _RETRIED)


class NoAnswerError(Exception):
    """No whole answer came; `meaning` is the error to raise when it is not tried again, `slow` says that it took its time."""

    def __init__(self, exc: Exception, what: str, url: str, *, change: bool) -> None:
        super().__init__()
        self.trouble = trouble_of(exc)
        self.meaning = _meaning(self.trouble, what, url, change=change)
        self.slow = isinstance(exc, (urllib3.exceptions.TimeoutError, TimeoutError))


def _meaning(trouble: Trouble, what: str, url: str, *, change: bool) -> KubehengeError:
    if change and not trouble.unsent:
        return UncertainError(
            f"{what}: {url} was sent this and its answer is lost ({trouble.words}). What is there is looked at before it is sent again."
        )
    return TransientError(f"{what}: {url} did not answer ({trouble.words}). {trouble.advice}")
