"""Probe of an unreachable broker that accepts TCP: finds TLS mismatches and rejected certificates.

gRPC reports all of these as an unavailable broker, some of them only as a closed socket. Therefore the probe opens its
own connection and observes the peer. It reports only what it observed:

- A connection that is closed after a complete handshake proves nothing: a proxy that terminates TLS does that while
  its broker restarts, and so does a broker that stops.
- A missing client certificate is proven by the certificate request in the handshake, together with a TLS 1.2
  handshake that fails at the certificate. In TLS 1.2 the certificate is verified before the handshake ends.
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
from forebay.client.transport.endpoint import PORT_MAX
from forebay.client.transport.security import check_files

PATIENCE_S: Final = 1.0
"""Time limit of each step."""

HELLO: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""First bytes of an HTTP/2 client; an HTTP/2 server answers with its settings."""

_SETTINGS_FRAME: Final = 4
_FRAME_HEAD_BYTES: Final = 9
_CERTIFICATE_REQUEST: Final = 13
"""Type of the handshake message (RFC 8446, section 4)."""


class Finding(StrEnum):
    """Result of a probe."""

    NOTHING = "NOTHING"
    """No error, no answer, or no conclusion."""

    CLOSED = "CLOSED"
    """The connection was closed after a complete handshake."""

    TLS_NEEDED = "TLS_NEEDED"
    """The broker requires TLS and the client does not use it."""

    TLS_UNKNOWN = "TLS_UNKNOWN"
    """The client uses TLS and the broker does not."""

    UNTRUSTED = "UNTRUSTED"
    """The broker's certificate is not trusted."""

    CERTIFICATE_DEMANDED = "CERTIFICATE_DEMANDED"
    """The broker requires a client certificate, and none or an unaccepted one was sent."""


FINAL: Final[Mapping[Finding, bool]] = {
    Finding.NOTHING: False,
    Finding.CLOSED: False,
    Finding.TLS_NEEDED: True,
    Finding.TLS_UNKNOWN: True,
    Finding.UNTRUSTED: True,
    Finding.CERTIFICATE_DEMANDED: True,
}
"""Findings that end a call or stream with ``HANDSHAKE_FAILED`` when they persist; others are retried."""


@dataclass(frozen=True, slots=True)
class Probed:
    """Finding with its text for users."""

    finding: Finding
    text: str = ""


_NOTHING: Final = Probed(Finding.NOTHING)


def probe(endpoint: str, settings: ClientSettings) -> Probed:
    """Return the finding of a connection to ``HOST:PORT`` with these settings. Never raises."""
    place = _place(endpoint)
    if place is None:
        return _NOTHING
    try:
        return _plain(place) if settings.tls is None else _encrypted(place, settings.tls)
    except (OSError, ValueError, ForebayError):
        # An invalid host name, or files that are being replaced: the connection of gRPC reports the error.
        return _NOTHING


def problem(endpoint: str, settings: ClientSettings) -> str:
    """Return the text of a finding that is final when it persists; empty for all others."""
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
            "the broker requires TLS and this client does not use it: set tls_ca_file (FOREBAY_TLS_CA_FILE) to the "
            "certificate authority of the broker",
        )


def _encrypted(place: tuple[str, int], tls: TlsSettings) -> Probed:
    name = tls.server_name or place[0]
    try:
        greeting = _greet(place, _context(tls), name)
    except ssl.SSLCertVerificationError as error:
        return Probed(
            Finding.UNTRUSTED,
            f"the broker's certificate is not trusted: {error.verify_message.rstrip('.')}; set tls_ca_file to its "
            "certificate authority, and tls_server_name to a name in the certificate",
        )
    except ssl.SSLError as error:
        if _refuses_certificate(error):
            return _demanded(tls)
        if _is_plaintext(place):
            return Probed(
                Finding.TLS_UNKNOWN,
                "this client uses TLS and the broker does not: disable TLS, or configure a certificate of the broker",
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
        "the peer accepted TLS and closed the connection, as a proxy does while its broker is unavailable",
    )


def _demanded(tls: TlsSettings) -> Probed:
    shown = f"and does not accept {tls.cert_file}" if tls.cert_file else "and this client has none"
    return Probed(
        Finding.CERTIFICATE_DEMANDED,
        f"the broker requires a client certificate {shown}: set tls_cert_file and tls_key_file to one signed by the "
        "authority in the broker's tls_client_ca_file",
    )


def _context(tls: TlsSettings) -> ssl.SSLContext:
    context = check_files(tls)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # gRPC is less strict
    context.set_alpn_protocols(["h2"])
    return context


def _fails_at_certificate(place: tuple[str, int], tls: TlsSettings, name: str) -> bool:
    """Return True if a TLS 1.2 handshake, which verifies the client certificate, fails there."""
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
    """Return True for a TLS alert of the peer about the client certificate."""
    reason = error.reason or ""
    return "ALERT" in reason and any(word in reason for word in ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED"))


def _is_plaintext(place: tuple[str, int]) -> bool:
    head = _greet(place).answer or b""
    return len(head) == _FRAME_HEAD_BYTES and head[3] == _SETTINGS_FRAME


def _connected(place: tuple[str, int]) -> socket.socket:
    return socket.create_connection(place, PATIENCE_S)


@dataclass(frozen=True, slots=True)
class _Greeting:
    """Reaction of the peer to a client's first bytes."""

    answer: bytes | None
    """First bytes of the answer; empty if the peer closed the connection, None if it timed out."""

    refused: bool = False
    """The peer sent an alert about the client certificate."""

    asked: bool = False
    """The peer requested a client certificate."""


def _greet(place: tuple[str, int], context: ssl.SSLContext | None = None, name: str = "") -> _Greeting:
    """Connect, send the first bytes and return the reaction.

    With a context, raises ``SSLError`` if the handshake fails.
    """
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
            return _Greeting(None)  # closed during the handshake: by a stopping broker, or in the network
        with wrapped:
            return _first(wrapped, asked=asked)


def _watch_for_request(context: ssl.SSLContext) -> list[bool]:
    """Return a list that gets an item when the peer requests a certificate."""
    asked: list[bool] = []

    def note(_: object, direction: str, __: object, ___: object, message: object, ____: object) -> None:
        if direction == "read" and message == _CERTIFICATE_REQUEST:
            asked.append(True)

    # The only access to handshake messages. Without it, a certificate request is never proven, and is retried.
    context._msg_callback = note  # type: ignore[attr-defined]  # not in the stubs
    return asked


def _first(connection: socket.socket, *, asked: list[bool]) -> _Greeting:
    try:
        connection.sendall(HELLO)
        return _Greeting(connection.recv(_FRAME_HEAD_BYTES), asked=bool(asked))
    except ssl.SSLError as error:
        # An alert after the handshake, or an end without close_notify.
        return _Greeting(b"", refused=_refuses_certificate(error), asked=bool(asked))
    except TimeoutError:
        return _Greeting(None)
    except ConnectionError:
        return _Greeting(b"", asked=bool(asked))
