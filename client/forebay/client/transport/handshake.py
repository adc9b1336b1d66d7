"""Probe of a broker that cannot be reached although somebody listens there: TLS at one end only, or a certificate.

gRPC reports all of these as an unavailable broker, and of some nothing more than a closed socket. So the probe connects
once by itself and looks at what the other end does. It names only what it saw:

- A connection that is closed after a complete handshake proves nothing: a relay that terminates TLS does that while
  its broker restarts, and so does a broker that stops.
- A demand for a client certificate is proven by the demand itself, which is part of the handshake, together with a
  handshake of TLS 1.2 that fails at the certificate. There the certificate is checked before the handshake ends.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from forebay.client.errors import ForebayError
from forebay.client.settings import ClientSettings, TlsSettings
from forebay.client.transport.security import PORT_MAX, check_files

PATIENCE_S: Final = 1.0
"""Bound for each step."""

HELLO: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""First bytes of an HTTP/2 client; the other end answers with settings of its own."""

_SETTINGS_FRAME: Final = 4
_FRAME_HEAD_BYTES: Final = 9
_CERTIFICATE_REQUEST: Final = 13
"""Type of the handshake message (RFC 8446, section 4)."""


class Finding(StrEnum):
    """Result of a probe."""

    NOTHING = "NOTHING"
    """Nothing is wrong, nobody answers, or the probe cannot tell."""

    CLOSED = "CLOSED"
    """The handshake was complete and the connection was closed."""

    TLS_NEEDED = "TLS_NEEDED"
    """The broker speaks TLS and the client does not."""

    TLS_UNKNOWN = "TLS_UNKNOWN"
    """The client speaks TLS and the broker does not."""

    UNTRUSTED = "UNTRUSTED"
    """The broker's certificate is not trusted."""

    CERTIFICATE_DEMANDED = "CERTIFICATE_DEMANDED"
    """The broker demands a certificate of its clients and was not satisfied."""


FINAL: Final[Mapping[Finding, bool]] = {
    Finding.NOTHING: False,
    Finding.CLOSED: False,
    Finding.TLS_NEEDED: True,
    Finding.TLS_UNKNOWN: True,
    Finding.UNTRUSTED: True,
    Finding.CERTIFICATE_DEMANDED: True,
}
"""Whether a finding that lasts ends a call or stream with ``HandshakeFailed``; the others are retried."""


@dataclass(frozen=True, slots=True)
class Probed:
    """A finding and its text for people."""

    finding: Finding
    text: str = ""


_NOTHING: Final = Probed(Finding.NOTHING)


def probe(endpoint: str, settings: ClientSettings) -> Probed:
    """Return what a connection of these settings to ``HOST:PORT`` meets. Raises nothing."""
    place = _place(endpoint)
    if place is None:
        return _NOTHING
    try:
        return _plain(place) if settings.tls is None else _encrypted(place, settings.tls)
    except (OSError, ValueError, ForebayError):
        # A name that cannot be one, or files of ours that are being replaced: gRPC has a connection of its own.
        return _NOTHING


def problem(endpoint: str, settings: ClientSettings) -> str:
    """Return the text of a finding that is final once it lasts; empty for everything else."""
    found = probe(endpoint, settings)
    return found.text if FINAL[found.finding] else ""


def _place(endpoint: str) -> tuple[str, int] | None:
    host, _, port = endpoint.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or "/" in host or int(port[:6]) > PORT_MAX:
        return None
    return host.strip("[]"), int(port)


def _plain(place: tuple[str, int]) -> Probed:
    if _greet(place).answer != b"":
        return _NOTHING
    anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anybody.check_hostname = False
    anybody.verify_mode = ssl.CERT_NONE
    anybody.set_alpn_protocols(["h2"])
    with _connected(place) as plain, anybody.wrap_socket(plain):
        return Probed(
            Finding.TLS_NEEDED,
            "the broker speaks TLS and this client does not: set tls_ca_file (FOREBAY_TLS_CA_FILE) to the "
            "authority of its certificate",
        )


def _encrypted(place: tuple[str, int], tls: TlsSettings) -> Probed:
    name = tls.server_name or place[0]
    try:
        greeting = _greet(place, _context(tls), name)
    except ssl.SSLCertVerificationError as error:
        return Probed(
            Finding.UNTRUSTED,
            f"the broker's certificate is not trusted: {error.verify_message.rstrip('.')}; set tls_ca_file to its "
            "authority, and tls_server_name to a name that stands in it",
        )
    except ssl.SSLError as error:
        if _refuses_certificate(error):
            return _demanded(tls)
        if _speaks_plainly(place):
            return Probed(
                Finding.TLS_UNKNOWN,
                "this client speaks TLS and the broker does not: leave TLS out, or give the broker a certificate",
            )
        return _NOTHING
    if greeting.refused:
        return _demanded(tls)
    if greeting.answer != b"":
        return _NOTHING
    if greeting.asked and _fails_at_certificate(place, tls, name):
        return _demanded(tls)
    return Probed(
        Finding.CLOSED,
        "it accepted TLS and closed the connection, as a relay does whose broker is away",
    )


def _demanded(tls: TlsSettings) -> Probed:
    shown = f"and does not take {tls.cert_file}" if tls.cert_file else "and this client shows none"
    return Probed(
        Finding.CERTIFICATE_DEMANDED,
        f"the broker demands a certificate of its clients {shown}: set tls_cert_file and tls_key_file to one of the "
        "authority that it names by tls_client_ca_file",
    )


def _context(tls: TlsSettings) -> ssl.SSLContext:
    context = check_files(tls)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # gRPC is not as strict
    context.set_alpn_protocols(["h2"])
    return context


def _fails_at_certificate(place: tuple[str, int], tls: TlsSettings, name: str) -> bool:
    """Return whether TLS 1.2, which checks the client's certificate within the handshake, fails there."""
    context = _context(tls)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    asked = _watch_for_request(context)
    try:
        with _connected(place) as plain, context.wrap_socket(plain, server_hostname=name):
            return False
    except (ssl.SSLEOFError, ConnectionError):
        return bool(asked)
    except ssl.SSLError as error:
        return bool(asked) and "ALERT" in (error.reason or "")
    except OSError:
        return False


def _refuses_certificate(error: ssl.SSLError) -> bool:
    """Return whether an alert of the other end is about our certificate."""
    reason = error.reason or ""
    return "ALERT" in reason and any(word in reason for word in ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED"))


def _speaks_plainly(place: tuple[str, int]) -> bool:
    head = _greet(place).answer or b""
    return len(head) == _FRAME_HEAD_BYTES and head[3] == _SETTINGS_FRAME


def _connected(place: tuple[str, int]) -> socket.socket:
    return socket.create_connection(place, PATIENCE_S)


@dataclass(frozen=True, slots=True)
class _Greeting:
    """Reaction of the other end to a client's first bytes."""

    answer: bytes | None
    """The first bytes that came back, none where it closed the connection, None where it said nothing in time."""

    refused: bool = False
    """It sent an alert about our certificate."""

    asked: bool = False
    """It asked for a certificate."""


def _greet(place: tuple[str, int], context: ssl.SSLContext | None = None, name: str = "") -> _Greeting:
    """Connect, say hello and return the reaction. With a context raises ``SSLError`` for a handshake that fails."""
    try:
        plain = _connected(place)
    except OSError:
        return _Greeting(None)
    with plain:
        if context is None:
            return _first(plain, asked=[])
        asked = _watch_for_request(context)
        try:
            wrapped = context.wrap_socket(plain, server_hostname=name)
        except TimeoutError:
            return _Greeting(None)
        except ConnectionError:
            return _Greeting(None)  # cut in the handshake: by a broker that stops, or on the way
        with wrapped:
            return _first(wrapped, asked=asked)


def _watch_for_request(context: ssl.SSLContext) -> list[bool]:
    """Return a list that gets an item once the other end asks for a certificate."""
    asked: list[bool] = []

    def note(_: object, direction: str, __: object, ___: object, message: object, ____: object) -> None:
        if direction == "read" and message == _CERTIFICATE_REQUEST:
            asked.append(True)

    # The only way to see a handshake message. Where an interpreter lacks it, a demand is never proven: retried.
    context._msg_callback = note  # type: ignore[attr-defined]  # not in the stubs
    return asked


def _first(connection: socket.socket, *, asked: list[bool]) -> _Greeting:
    try:
        connection.sendall(HELLO)
        return _Greeting(connection.recv(_FRAME_HEAD_BYTES), asked=bool(asked))
    except ssl.SSLError as error:
        # An alert behind the handshake, or an end without the goodbye of TLS.
        return _Greeting(b"", refused=_refuses_certificate(error), asked=bool(asked))
    except TimeoutError:
        return _Greeting(None)
    except ConnectionError:
        return _Greeting(b"", asked=bool(asked))
