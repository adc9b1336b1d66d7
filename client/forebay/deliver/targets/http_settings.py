"""Settings of the HTTP target: address, format and authorization.

Secrets are never options, because a command line is visible to all users of the machine. The value of the authorization
header comes from an environment variable; the option has its name.
"""

from __future__ import annotations

import importlib.util
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Final

import httpcore2
import httpx2

from forebay.credentials import CredentialFile, Kind
from forebay.deliver.errors import InvalidOption
from forebay.deliver.targets.http_headers import problem_of_name, problem_of_value

_TARGET: Final = "http"
METHODS: Final = ("POST", "PUT", "PATCH")
TIMEOUT_S: Final = (0.001, 600.0)
"""Bounds of the time limits."""

RETRY_AFTER_S: Final = (0.0, 86_400.0)
"""Bounds of the longest honoured ``Retry-After``."""

PORT_MAX: Final = 65_535


class Format(StrEnum):
    """Content of one request."""

    NDJSON = "ndjson"
    """Batch with one JSON value per line (``application/x-ndjson``)."""

    JSON_ARRAY = "json_array"
    """Batch as one JSON array (``application/json``)."""

    SINGLE = "single"
    """Single record: its bytes unchanged, or its envelope."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """Settings of the HTTP target."""

    url: str
    """Address: ``http://`` or ``https://``, without user and password."""

    format: Format = Format.NDJSON
    """Content of one request."""

    envelope: bool = False
    """Wrap each record with its idempotency key, position and time.

    See `forebay.deliver.targets.encoding`.
    """

    method: str = "POST"
    """``POST``, ``PUT`` or ``PATCH``."""

    content_type: str | None = None
    """Content type instead of the format's own.

    The default for ``single`` without envelope is ``application/octet-stream``.
    """

    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Additional headers. As options: ``header.NAME=VALUE``.

    Their values, and the words in them of 4 characters and more, are removed from what the target sends back.
    """

    authorization_env: str | None = None
    """Environment variable with the value of the ``Authorization`` header, such as ``Bearer …``."""

    connect_timeout_s: float = 5.0
    """Time limit of connecting, within ``timeout_s``. 0.001 to 600."""

    timeout_s: float = 20.0
    """Time limit of one request, from connecting to the end of its answer. 0.001 to 600.

    Keep it below the sink's ack deadline.
    """

    retry_after_max_s: float = 3600.0
    """Upper bound of an honoured ``Retry-After``; longer ones are cut to it. 0 to 86,400."""

    ca_file: str | None = None
    """Trusted certificate authorities (PEM), instead of the system's."""

    cert_file: str | None = None
    """Client certificate (PEM)."""

    key_file: str | None = None
    """Private key (PEM) of the client certificate, if it is not in ``cert_file``."""

    proxy: str | None = None
    """Proxy to use. The proxy variables of the environment are ignored."""

    def __post_init__(self) -> None:
        """Reject invalid values, naming the option."""
        try:
            url = httpx2.URL(self.url)
        except httpx2.InvalidURL as error:
            raise InvalidOption(_TARGET, "url", "must be a valid URL") from error
        if url.scheme not in {"http", "https"} or not url.host:
            raise InvalidOption(_TARGET, "url", "must be a URL with a host that begins with http:// or https://")
        if url.userinfo:
            raise InvalidOption(
                _TARGET,
                "url",
                "must not contain user and password; set authorization_env to the name of a variable",
            )
        _check_port("url", url)
        if self.method not in METHODS:
            raise InvalidOption(_TARGET, "method", f"{self.method!r}: must be one of {', '.join(METHODS)}")
        self._check_headers()
        if self.content_type is not None and (problem := problem_of_value(self.content_type)):
            raise InvalidOption(_TARGET, "content_type", f"it {problem}")
        self._check_proxy()
        bounds = {"connect_timeout_s": TIMEOUT_S, "timeout_s": TIMEOUT_S, "retry_after_max_s": RETRY_AFTER_S}
        for name, (low, high) in bounds.items():
            if not low <= (value := getattr(self, name)) <= high:
                raise InvalidOption(_TARGET, name, f"{value}: must be {low:g} to {high:g}")
        if self.key_file and not self.cert_file:
            raise InvalidOption(_TARGET, "key_file", "requires cert_file")

    def _check_headers(self) -> None:
        seen: set[str] = set()
        for name, value in self.headers:
            if problem := problem_of_name(name):
                raise InvalidOption(_TARGET, f"header.{name}", problem)
            if name.lower() in seen:
                raise InvalidOption(_TARGET, f"header.{name}", "it is given twice; case makes no difference")
            if problem := problem_of_value(value):
                raise InvalidOption(_TARGET, f"header.{name}", f"the value {problem}")
            seen.add(name.lower())

    def _check_proxy(self) -> None:
        if self.proxy is None:
            return
        try:
            proxy = httpx2.URL(self.proxy)
        except httpx2.InvalidURL as error:
            raise InvalidOption(_TARGET, "proxy", "must be a valid URL") from error
        if proxy.scheme not in {"http", "https", "socks5", "socks5h"} or not proxy.host:
            raise InvalidOption(_TARGET, "proxy", "must be a URL with a host and http, https, socks5 or socks5h")
        _check_port("proxy", proxy)

    @property
    def credential_files(self) -> tuple[CredentialFile, ...]:
        """Certificate and key files, for warnings about them."""
        return (
            CredentialFile("ca_file", self.ca_file or "", Kind.CERTIFICATES),
            CredentialFile("cert_file", self.cert_file or "", Kind.CERTIFICATES),
            CredentialFile("key_file", self.key_file or "", Kind.SECRET),
        )

    @property
    def is_plain(self) -> bool:
        """True if requests are not encrypted."""
        return httpx2.URL(self.url).scheme == "http"

    @property
    def tls_layers(self) -> int:
        """Number of TLS layers between network and target: its own, and that of an encrypted proxy."""
        through = self.proxy is not None and httpx2.URL(self.proxy).scheme == "https"
        return int(not self.is_plain) + int(through)

    @property
    def timeouts(self) -> dict[str, float]:
        """Time limits of the steps; the deadline of the exchange limits their sum."""
        whole = self.timeout_s
        return {"connect": min(self.connect_timeout_s, whole), "read": whole, "write": whole, "pool": whole}

    @property
    def target_url(self) -> httpcore2.URL:
        """Address in the form of the connection pool."""
        return _raw(httpx2.URL(self.url))

    def pool(self, connections: int, network: httpcore2.NetworkBackend) -> httpcore2.ConnectionPool:
        """Return the connection pool; raises `InvalidOption` for an unusable certificate."""
        common: dict[str, Any] = {
            "ssl_context": self.tls(),
            "max_connections": connections,
            "max_keepalive_connections": connections,
            "keepalive_expiry": 30.0,
            "network_backend": network,
        }
        if self.proxy is None:
            return httpcore2.ConnectionPool(**common)
        proxy = httpx2.Proxy(self.proxy)
        is_socks = proxy.url.scheme.startswith("socks5")
        if is_socks and not _has_socks():
            problem = "a SOCKS proxy requires a package that is not installed: pip install socksio"
            raise InvalidOption(_TARGET, "proxy", problem)
        kind = httpcore2.SOCKSProxy if is_socks else httpcore2.HTTPProxy
        return kind(_raw(proxy.url), proxy_auth=proxy.raw_auth, **common)

    @property
    def place(self) -> str:
        """Address for messages, without user, password and query."""
        url = httpx2.URL(self.url)
        return f"{url.scheme}://{url.netloc.decode('ascii')}{url.path}"

    @property
    def span_attributes(self) -> dict[str, str | int]:
        """Attributes of the span of a request, without user, password and query."""
        url = httpx2.URL(self.url)
        return {
            "http.request.method": self.method,
            "url.full": self.place,
            "server.address": url.host,
            "server.port": url.port or (443 if url.scheme == "https" else 80),
        }

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> HttpSettings:
        """Build settings from command-line options; raises `InvalidOption` with the invalid one."""
        values: dict[str, Any] = {
            "headers": tuple(
                (name.removeprefix("header."), value) for name, value in options.items() if name.startswith("header.")
            )
        }
        for name, text in options.items():
            if name.startswith("header."):
                continue
            if name not in _PARSERS:
                raise InvalidOption(_TARGET, name, f"unknown option: must be one of {', '.join(sorted(_PARSERS))}")
            try:
                values[name] = _PARSERS[name](text)
            except ValueError as error:
                raise InvalidOption(_TARGET, name, str(error)) from error
        if "url" not in values:
            raise InvalidOption(_TARGET, "url", "is required")
        return cls(**values)

    def tls(self) -> ssl.SSLContext:
        """Return the TLS context; raises `InvalidOption` for an unusable file."""
        if not (self.ca_file or self.cert_file):
            return httpcore2.default_ssl_context()
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            raise InvalidOption(_TARGET, "ca_file", f"{self.ca_file}: {error.strerror or error}") from error
        if self.cert_file:
            try:
                context.load_cert_chain(self.cert_file, self.key_file)
            except OSError as error:
                raise InvalidOption(_TARGET, "cert_file", f"{self.cert_file}: {error.strerror or error}") from error
        return context


def _check_port(option: str, url: httpx2.URL) -> None:
    if url.port is not None and not 1 <= url.port <= PORT_MAX:
        raise InvalidOption(_TARGET, option, f"the port is {url.port}: must be 1 to {PORT_MAX}")


def _has_socks() -> bool:
    try:
        return importlib.util.find_spec("socksio") is not None
    except ValueError:  # its entry in sys.modules is None
        return False


def _raw(url: httpx2.URL) -> httpcore2.URL:
    return httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)


def _boolean(text: str) -> bool:
    values = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if text.lower() not in values:
        raise ValueError(f"{text!r}: must be true or false")
    return values[text.lower()]


_PARSERS: Final[Mapping[str, Callable[[str], object]]] = {
    field.name: {
        "format": Format,
        "envelope": _boolean,
        "connect_timeout_s": float,
        "timeout_s": float,
        "retry_after_max_s": float,
    }.get(field.name, str)
    for field in fields(HttpSettings)
    if field.name != "headers"
}
