"""Security files of a broker: its certificate, the authority of its clients, the hashes of tokens.

All files are read and checked before the store is opened, and again at a renewal: an invalid file is reported with its
setting, and never partly applied.
"""

from __future__ import annotations

import logging
import os
import ssl
from dataclasses import dataclass, field
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import Final

from forebay.broker.core.access.certificates import Certificates
from forebay.broker.core.access.credentials import Credentials, CredentialsInvalid, parse
from forebay.broker.rpc.access.audit import AUDIT_LOGGER
from forebay.broker.settings import BrokerSettings, SettingsError
from forebay.credentials import CredentialFile, Kind
from forebay.text import SafeFormatter

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Security:
    """Certificates and credentials of a broker."""

    certificates: Certificates | None
    """None for connections without TLS."""

    credentials: Credentials | None
    """None lets every caller that can connect do everything."""

    files: tuple[tuple[int, ...], ...] = field(default=(), compare=False)
    """Their ``fingerprint`` before they were read."""


def read(settings: BrokerSettings) -> Security:
    """Read and check all files that the settings name. Raises ``SettingsError``."""
    files = fingerprint(settings)
    return Security(_certificates(settings), _credentials(settings), files)


def credential_files(settings: BrokerSettings) -> tuple[CredentialFile, ...]:
    """Return the files that the settings name, for warnings about them."""
    return (
        CredentialFile("tls_server_cert_file", settings.tls_server_cert_file, Kind.CERTIFICATES),
        CredentialFile("tls_server_key_file", settings.tls_server_key_file, Kind.SECRET),
        CredentialFile("tls_client_ca_file", settings.tls_client_ca_file, Kind.CERTIFICATES),
        CredentialFile("token_hashes_file", settings.token_hashes_file, Kind.TRUST),
    )


def fingerprint(settings: BrokerSettings) -> tuple[tuple[int, ...], ...]:
    """Return a value that changes when one of the files changes or is replaced."""
    return tuple(_state(path) for path in _files(settings) if path)


def open_audit_log(settings: BrokerSettings) -> logging.Handler | None:
    """Write the audit log to the file that the settings name, too. Raises ``SettingsError``."""
    path = settings.audit_log_file
    if not path:
        return None
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        handler = WatchedFileHandler(path)
    except OSError as error:
        raise SettingsError(f"audit_log_file = {path}: cannot be written: {error.strerror}") from error
    handler.setFormatter(SafeFormatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger(AUDIT_LOGGER)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    return handler


def close_audit_log(handler: logging.Handler | None) -> None:
    """Undo ``open_audit_log``."""
    if handler is not None:
        logger = logging.getLogger(AUDIT_LOGGER)
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
        handler.close()


def warn_of_open_access(settings: BrokerSettings, security: Security) -> None:
    """Warn of a broker that lets every caller of another machine do everything."""
    if settings.listens_openly:
        _log.warning(
            "ACCESS IS NOT CONTROLLED: every caller that reaches listen=%s may read, change and delete every sink, "
            "because allow_anonymous = true (tls=%s)",
            settings.listen,
            security.certificates is not None,
        )


def _files(settings: BrokerSettings) -> tuple[str, ...]:
    return (
        settings.tls_server_cert_file,
        settings.tls_server_key_file,
        settings.tls_client_ca_file,
        settings.token_hashes_file,
    )


def _state(path: str) -> tuple[int, ...]:
    try:
        found = Path(path).stat()
    except OSError:
        return ()
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _certificates(settings: BrokerSettings) -> Certificates | None:
    cert, key, authority = settings.tls_server_cert_file, settings.tls_server_key_file, settings.tls_client_ca_file
    if not cert:
        return None
    chain = _content("tls_server_cert_file", cert)
    private = _content("tls_server_key_file", key)
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


def _credentials(settings: BrokerSettings) -> Credentials | None:
    path = settings.token_hashes_file
    if not path:
        return None
    try:
        return parse(_content("token_hashes_file", path).decode())
    except (CredentialsInvalid, UnicodeDecodeError) as error:
        problem = str(error) if isinstance(error, CredentialsInvalid) else "it is not UTF-8 text"
        raise SettingsError(f"token_hashes_file = {path}: {problem}") from error


def _content(name: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise SettingsError(f"{name} = {path}: cannot be read: {error.strerror}") from error


def _no_password() -> str:
    """Return an empty password, so that a key with a password does not prompt at the terminal."""
    return ""


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or error).lower().replace("_", " ")
