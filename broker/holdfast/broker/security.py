"""Reads what makes a broker's connections safe: its certificate, the authority of its clients, the hashes of tokens.

All of it is read and checked before the store is opened, and again when it is to be renewed: a file that is wrong is
told with its setting, and never half taken.
"""

from __future__ import annotations

import logging
import ssl
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast.broker.core.certificates import Certificates
from holdfast.broker.core.tokens import TokenHashes, TokenHashesInvalid, parse
from holdfast.broker.settings import BrokerSettings, SettingsError, is_loopback

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Security:
    """How a broker is protected."""

    certificates: Certificates | None
    """None for connections without TLS."""

    tokens: TokenHashes | None
    """None takes calls from everybody who can connect."""


def read(settings: BrokerSettings) -> Security:
    """Read and check all files that the settings name. Raises ``SettingsError``."""
    return Security(_certificates(settings), _tokens(settings))


def tell_who_may_call(settings: BrokerSettings, security: Security) -> None:
    """Warn of a broker that serves everybody who can reach it from another machine."""
    if security.tokens is None and not is_loopback(settings.listen):
        _log.warning(
            "broker takes calls without a token listen=%s tls=%s client_certificates=%s",
            settings.listen,
            security.certificates is not None,
            security.certificates is not None and security.certificates.client_ca is not None,
        )


def _certificates(settings: BrokerSettings) -> Certificates | None:
    cert, key, authority = settings.tls_server_cert_file, settings.tls_server_key_file, settings.tls_client_ca_file
    if not cert:
        return None
    chain = _content("tls_server_cert_file", cert)
    private = _content("tls_server_key_file", key)
    _warn_unless_private(key)
    checked = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        checked.load_cert_chain(cert, key, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        raise SettingsError(
            f"tls_server_key_file = {key}: does not go with tls_server_cert_file = {cert}: both must be PEM, the key "
            f"without a password and that of the first certificate ({_reason(error)})"
        ) from error
    if not authority:
        return Certificates(chain, private, None)
    authorities = _content("tls_client_ca_file", authority)
    try:
        checked.load_verify_locations(authority)
    except ssl.SSLError as error:
        raise SettingsError(f"tls_client_ca_file = {authority}: must be PEM certificates ({_reason(error)})") from error
    return Certificates(chain, private, authorities)


def _tokens(settings: BrokerSettings) -> TokenHashes | None:
    path = settings.token_hashes_file
    if not path:
        return None
    try:
        return parse(_content("token_hashes_file", path).decode())
    except (TokenHashesInvalid, UnicodeDecodeError) as error:
        said = str(error) if isinstance(error, TokenHashesInvalid) else "it is no text"
        raise SettingsError(f"token_hashes_file = {path}: {said}") from error


def _content(name: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise SettingsError(f"{name} = {path}: cannot be read: {error.strerror}") from error


def _warn_unless_private(key: str) -> None:
    mode = stat.S_IMODE(Path(key).stat().st_mode)
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        _log.warning("private key can be used by others file=%s mode=%o", key, mode)


def _no_password() -> str:
    """A key with a password would be asked for at the terminal."""
    return ""


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or error).lower().replace("_", " ")
