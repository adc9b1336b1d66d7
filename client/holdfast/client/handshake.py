"""Finds out why a broker cannot be reached although somebody listens there: TLS at one end only, or a certificate.

gRPC says of all of these that the broker is unavailable, which is worth another try, and of some nothing more than
that a socket was closed. So this connects once more by itself and looks at what the other end does. It names only what
is certain; for everything else it returns nothing, and the broker stays unavailable.
"""

from __future__ import annotations

import socket
import ssl
from typing import Final

from holdfast.client.securing import check_files
from holdfast.client.settings import ClientSettings, TlsSettings

PATIENCE_S: Final = 1.0
"""How long each step waits."""

HELLO: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""What a client of HTTP/2 says first; the other end answers with settings of its own."""

_SETTINGS_FRAME: Final = 4
_FRAME_HEAD_BYTES: Final = 9


def problem(endpoint: str, settings: ClientSettings) -> str:
    """Return what keeps a client with these settings from talking to ``HOST:PORT``, and what to do; or nothing."""
    host, _, port = endpoint.rpartition(":")
    if not host or not port.isdigit() or "/" in host:
        return ""
    place = (host.strip("[]"), int(port))
    if settings.tls is None:
        return _plain(place)
    return _encrypted(place, settings.tls)


def _plain(place: tuple[str, int]) -> str:
    if _answer(place) != b"":
        return ""
    anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anybody.check_hostname = False
    anybody.verify_mode = ssl.CERT_NONE
    anybody.set_alpn_protocols(["h2"])
    try:
        with _connected(place) as plain, anybody.wrap_socket(plain):
            return (
                "the broker speaks TLS and this client does not: set tls_ca_file (HOLDFAST_TLS_CA_FILE) to the "
                "authority of its certificate"
            )
    except OSError:
        return ""


def _encrypted(place: tuple[str, int], tls: TlsSettings) -> str:
    context = check_files(tls)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # gRPC is not as strict
    context.set_alpn_protocols(["h2"])
    name = tls.server_name or place[0]
    try:
        # Twice: a broker that is about to stop closes a connection too, and takes no second one.
        refused = _answer(place, context, name) == b"" and _answer(place, context, name) == b""
    except ssl.SSLCertVerificationError as error:
        return (
            f"the broker's certificate is not trusted: {error.verify_message.rstrip('.')}; set tls_ca_file to its "
            "authority, and tls_server_name to a name that stands in it"
        )
    except ssl.SSLError as error:
        if _speaks_plainly(place):
            return "this client speaks TLS and the broker does not: leave TLS out, or give the broker a certificate"
        refused = "ALERT" in (error.reason or "")
    except OSError:
        return ""
    if not refused:
        return ""
    shown = f"and does not take {tls.cert_file}" if tls.cert_file else "and this client shows none"
    return (
        f"the broker demands a certificate of its clients {shown}: set tls_cert_file and tls_key_file to one of the "
        "authority that it names by tls_client_ca_file"
    )


def _speaks_plainly(place: tuple[str, int]) -> bool:
    head = _answer(place) or b""
    return len(head) == _FRAME_HEAD_BYTES and head[3] == _SETTINGS_FRAME


def _connected(place: tuple[str, int]) -> socket.socket:
    return socket.create_connection(place, PATIENCE_S)


def _answer(place: tuple[str, int], context: ssl.SSLContext | None = None, name: str = "") -> bytes | None:
    """Return the first bytes that come back, none where it ends the connection, None where it says nothing in time.

    With a context raises ``SSLError`` for a handshake that fails.
    """
    try:
        plain = _connected(place)
    except OSError:
        return None
    with plain:
        if context is None:
            return _first(plain)
        with context.wrap_socket(plain, server_hostname=name) as wrapped:
            return _first(wrapped)


def _first(connection: socket.socket) -> bytes | None:
    try:
        connection.sendall(HELLO)
        return connection.recv(_FRAME_HEAD_BYTES)
    except ssl.SSLError:
        # An alert behind the handshake: the other end refuses the certificate that it was shown, or that it was not.
        return b""
    except TimeoutError:
        return None
    except ConnectionError:
        return b""
