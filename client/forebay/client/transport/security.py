"""Creation of channels: plain or TLS, with or without a token on every call.

The token is read at the start of each call from its configured source, and is not stored elsewhere.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc

from forebay.client.errors import CredentialsUnusable
from forebay.client.settings import ClientSettings, TlsSettings
from forebay.client.transport.endpoint import with_port
from forebay.credentials import CredentialFile, Kind

TOKEN_BYTES_MAX: Final = 4_096


def open_channel(endpoint: str, settings: ClientSettings, options: list[tuple[str, Any]]) -> grpc.Channel:
    """Return a channel to ``HOST:PORT``; it connects with its first call, and adds the token to each.

    Raises ``CredentialsUnusable``, and ``INVALID_SETTING`` for an invalid host or port.
    """
    channel: grpc.Channel = channel_of(grpc, endpoint, settings, options)
    return grpc.intercept_channel(channel, WithToken(lambda: token_of(settings))) if has_token(settings) else channel


def has_token(settings: ClientSettings) -> bool:
    """Return True if calls carry a token."""
    return bool(settings.token or settings.token_file or settings.token_env)


def channel_of(library: Any, endpoint: str, settings: ClientSettings, options: list[tuple[str, Any]]) -> Any:
    """Return a channel of ``grpc`` or ``grpc.aio`` that adds no token; raises as ``open_channel``."""
    endpoint = with_port(endpoint)
    if settings.tls is None:
        if has_token(settings) and not settings.token_without_tls and not _is_this_machine(endpoint):
            raise CredentialsUnusable(
                f"the token would be sent unencrypted to {endpoint}: set tls_ca_file (FOREBAY_TLS_CA_FILE), or "
                "token_without_tls if the network itself is encrypted",
                facts={"field": "token", "endpoint": endpoint},
            )
        return library.insecure_channel(endpoint, options=options)
    if settings.tls.server_name:
        options = [*options, ("grpc.ssl_target_name_override", settings.tls.server_name)]
    return library.secure_channel(endpoint, _credentials(settings.tls), options=options)


def credential_files(settings: ClientSettings) -> tuple[CredentialFile, ...]:
    """Return the credential files named by the settings, for warnings about them."""
    tls = settings.tls or TlsSettings()
    return (
        CredentialFile("tls_ca_file", tls.ca_file, Kind.CERTIFICATES),
        CredentialFile("tls_cert_file", tls.cert_file, Kind.CERTIFICATES),
        CredentialFile("tls_key_file", tls.key_file, Kind.SECRET),
        CredentialFile("token_file", settings.token_file, Kind.SECRET),
    )


def fingerprint(tls: TlsSettings | None) -> tuple[tuple[int, ...], ...]:
    """Return a value that changes when a TLS file is changed, replaced or removed."""
    if tls is None:
        return ()
    return tuple(_state(path) for path in (tls.ca_file, tls.cert_file, tls.key_file) if path)


def _state(path: str) -> tuple[int, ...]:
    try:
        found = Path(path).stat()
    except OSError:
        return ()
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def token_of(settings: ClientSettings) -> str:
    """Return the current token. Raises ``CredentialsUnusable``, whose text never contains the token."""
    if settings.token_env:
        token, where = os.environ.get(settings.token_env, ""), f"the environment variable {settings.token_env}"
    elif settings.token_file:
        token, where = _text("token_file", settings.token_file), f"token_file = {settings.token_file}"
    else:
        token, where = settings.token, "token"
    token = token.strip()
    if not token:
        raise CredentialsUnusable(f"{where}: contains no token", facts={"field": "token"})
    if len(token) > TOKEN_BYTES_MAX or not (token.isascii() and token.isprintable()) or " " in token:
        raise CredentialsUnusable(
            f"{where}: a token must be at most {TOKEN_BYTES_MAX} printable ASCII characters without spaces",
            facts={"field": "token"},
        )
    return token


def check_files(tls: TlsSettings) -> ssl.SSLContext:
    """Return an SSL context of the files.

    Raises ``CredentialsUnusable`` with the setting and the file. gRPC itself would accept any bytes and fail at each
    connection.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if tls.ca_file:
            context.load_verify_locations(tls.ca_file)
        else:
            context.load_default_certs()
    except (OSError, ValueError) as error:
        raise _unusable("tls_ca_file", tls.ca_file, "PEM certificates", error) from error
    try:
        if tls.cert_file:
            context.load_cert_chain(tls.cert_file, tls.key_file, password=_no_password)
    except (OSError, ValueError) as error:
        wanted = f"PEM, and match tls_key_file = {tls.key_file}, which must have no password"
        raise _unusable("tls_cert_file", tls.cert_file, wanted, error) from error
    return context


class _Details(NamedTuple):
    """Call details of a gRPC interceptor."""

    method: str
    timeout: float | None
    metadata: Any
    credentials: Any
    wait_for_ready: bool | None
    compression: Any


class WithToken(
    grpc.UnaryUnaryClientInterceptor,
    grpc.UnaryStreamClientInterceptor,
    grpc.StreamUnaryClientInterceptor,
    grpc.StreamStreamClientInterceptor,
):
    """Interceptor that adds a token to every call."""

    def __init__(self, token: Callable[[], str]) -> None:
        """Call ``token`` for each call, on the calling thread."""
        self._token = token

    def _with_token(self, details: Any) -> _Details:
        bearer = ("authorization", f"Bearer {self._token()}")
        return _Details(
            details.method,
            details.timeout,
            [*(details.metadata or ()), bearer],
            details.credentials,
            details.wait_for_ready,
            details.compression,
        )

    def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        """Continue with the token."""
        return continuation(self._with_token(client_call_details), request)

    def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        """Continue with the token."""
        return continuation(self._with_token(client_call_details), request)

    def intercept_stream_unary(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        """Continue with the token."""
        return continuation(self._with_token(client_call_details), request_iterator)

    def intercept_stream_stream(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        """Continue with the token."""
        return continuation(self._with_token(client_call_details), request_iterator)


def _credentials(tls: TlsSettings) -> grpc.ChannelCredentials:
    check_files(tls)
    return grpc.ssl_channel_credentials(
        root_certificates=_bytes("tls_ca_file", tls.ca_file),
        private_key=_bytes("tls_key_file", tls.key_file),
        certificate_chain=_bytes("tls_cert_file", tls.cert_file),
    )


def _bytes(name: str, path: str) -> bytes | None:
    if not path:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise _unusable(name, path, "readable", error) from error


def _text(name: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip().partition("\n")[0]
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable(name, path, "readable text", error) from None


def _unusable(name: str, path: str, wanted: str, error: Exception) -> CredentialsUnusable:
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
        said = f"cannot be read: {error.strerror}"
    else:
        reason = str(getattr(error, "reason", "") or "").lower().replace("_", " ")
        said = f"must be {wanted}" + (f" ({reason})" if reason else "")
    return CredentialsUnusable(f"{name} = {path}: {said}", facts={"field": name, "value": path})


def _no_password() -> str:
    """Prevent a password prompt at the terminal for an encrypted key."""
    return ""


def _is_this_machine(endpoint: str) -> bool:
    if endpoint.startswith("unix:"):
        return True
    host = endpoint.rpartition(":")[0].rpartition("/")[2].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
