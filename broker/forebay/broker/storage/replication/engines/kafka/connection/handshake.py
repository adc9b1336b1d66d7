"""Check of the TLS of a node: Kafka's client does not tell why no connection is made.

It says the same of each certificate that it does not accept, and of a node that it has asked without TLS only that it
is down.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from forebay.broker.storage.replication.engine import EngineAway, EngineRefused, EngineUntrusted
from forebay.broker.storage.replication.engines.kafka.connection.access import CERTIFICATE_REMEDY
from forebay.broker.storage.replication.engines.kafka.connection.address import KafkaAddress

LOOK_S: Final = 1.0
"""Time limit of each step of the check of one node."""
_NODE: Final = re.compile(r"ssl://([^/\s]+)/")
_EXPIRED: Final = frozenset({9, 10})
_OTHER_HOST: Final = frozenset({62, 64})
_UNKNOWN_AUTHORITY: Final = frozenset({2, 18, 19, 20, 21})
"""Codes of OpenSSL: it is not valid yet or any more, is of another host, has no known authority."""


def tls_problem(address: KafkaAddress, said: str) -> EngineAway | None:
    """Return why no connection is made, None if TLS is not the reason.

    ``said`` is what the client says; nodes that it names are asked first.
    """
    servers = dict.fromkeys([*_NODE.findall(said), *address.servers.split(",")])
    has_tls = _protocol(address.settings).endswith("SSL")
    for server in servers:
        try:
            answers_tls = _answers_tls(server, address.settings if has_tls else None)
        except ssl.SSLCertVerificationError as error:
            return EngineUntrusted(
                f"the certificate of {server} is not accepted: {error.verify_message}; {_remedy(error.verify_code)}",
                str(address),
            )
        except OSError:
            continue  # it is not reached, or a file of the settings is none of certificates
        return None if answers_tls is has_tls else EngineRefused(_mismatch(address, server, has_tls), str(address))
    return None


def _protocol(settings: Mapping[str, str]) -> str:
    return settings.get("security.protocol", "PLAINTEXT").upper()


def _mismatch(address: KafkaAddress, server: str, has_tls: bool) -> str:
    wanted = "PLAINTEXT, or SASL_PLAINTEXT with a login," if has_tls else "SSL, or SASL_SSL with a login,"
    return (
        f"{server} {'has no TLS' if has_tls else 'demands TLS'}, and security.protocol is "
        f"{_protocol(address.settings)}: set {wanted} in the file that ?config= of the journal's address names, or "
        f"name the port of a listener {'with' if has_tls else 'without'} TLS"
    )


def _remedy(code: int) -> str:
    if code in _EXPIRED:
        return "renew it, or set the clock of this machine"
    if code in _OTHER_HOST:
        return "name each node as its certificate does, in the journal's address and in advertised.listeners of Kafka"
    if code in _UNKNOWN_AUTHORITY:
        return "name the file of the authority that signed it with ssl.ca.location"
    return CERTIFICATE_REMEDY


def _answers_tls(server: str, settings: Mapping[str, str] | None) -> bool:
    """Return whether a node speaks TLS; its certificate is verified as ``settings`` say, if any.

    Raises ``OSError`` where it is not reached, and ``ssl.SSLCertVerificationError``.
    """
    context = _context(settings)
    place = urlsplit(f"//{server}")
    host, port = place.hostname or "", place.port or 0
    with socket.create_connection((host, port), LOOK_S) as connection:
        try:
            context.wrap_socket(connection, server_hostname=host).close()
        except ssl.SSLCertVerificationError:
            raise
        except ssl.SSLError as error:
            return "ALERT" in (error.reason or "")  # only who speaks it sends one
        except ConnectionError:
            return False
    return True


def _context(settings: Mapping[str, str] | None) -> ssl.SSLContext:
    """Raises ``OSError`` for files that cannot be read."""
    if settings is None or settings.get("enable.ssl.certificate.verification") == "false":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context
    authorities = settings.get("ssl.ca.location")
    context = ssl.create_default_context(cadata=settings.get("ssl.ca.pem"))
    if authorities is not None and authorities != "probe":
        context = ssl.create_default_context(cafile=authorities)
    context.check_hostname = settings.get("ssl.endpoint.identification.algorithm") != "none"
    return context
