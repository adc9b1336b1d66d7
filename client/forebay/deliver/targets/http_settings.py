"""How the HTTP target is told where to send, in which form, and how it proves who it is.

Nothing secret is ever an option: a command line is seen by everyone on the machine. The value of the
authorization header comes from an environment variable, of which the option holds the name.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import httpcore2
import httpx2

from forebay.credentials import CredentialFile, Kind
from forebay.deliver.errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_TARGET: Final = "http"
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
"""A token (RFC 9110, section 5.6.2)."""


class Format(StrEnum):
    """What one request holds."""

    NDJSON = "ndjson"
    """A batch, one JSON value a line (``application/x-ndjson``)."""

    JSON_ARRAY = "json_array"
    """A batch as one JSON array (``application/json``)."""

    SINGLE = "single"
    """One record: its bytes as they are, or its envelope."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """Settings of the HTTP target."""

    url: str
    """Where to send: ``http://`` or ``https://``, without user and password."""

    format: Format = Format.NDJSON
    """What one request holds."""

    envelope: bool = False
    """Whether each record is wrapped with its idempotency key, place and time, see
    `forebay.deliver.targets.encoding`.
    """

    method: str = "POST"
    """``POST``, ``PUT`` or ``PATCH``."""

    content_type: str | None = None
    """Replaces the format's own; for ``single`` without envelope that is ``application/octet-stream``."""

    headers: tuple[tuple[str, str], ...] = ()
    """More headers, none of them secret. As options: ``header.NAME=VALUE``."""

    authorization_env: str | None = None
    """Name of the environment variable whose value becomes the ``Authorization`` header, such as ``Bearer
    …``.
    """

    connect_timeout_s: float = 5.0
    """Longest wait for a connection, within ``timeout_s``. 0.001 to 600."""

    timeout_s: float = 20.0
    """Longest time of one request, from connecting to the end of its answer; keep it below the sink's ack
    deadline. 0.001 to 600.
    """

    retry_after_max_s: float = 3600.0
    """Longest ``Retry-After`` that is honoured; longer ones are cut to it. 0 to 86,400."""

    ca_file: str | None = None
    """Certificates (PEM) to trust instead of the system's."""

    cert_file: str | None = None
    """Certificate (PEM) to show to the target."""

    key_file: str | None = None
    """Its key (PEM), if it is not in ``cert_file``."""

    proxy: str | None = None
    """Proxy to go through. The environment's proxy variables are not looked at."""

    def __post_init__(self) -> None:
        """Refuse what could not work, naming the option."""
        try:
            url = httpx2.URL(self.url)
        except httpx2.InvalidURL as error:
            raise InvalidOption(_TARGET, "url", "this is no valid URL") from error
        if url.scheme not in {"http", "https"} or not url.host:
            raise InvalidOption(_TARGET, "url", "a URL that begins with http:// or https:// and names a host is needed")
        if url.userinfo:
            raise InvalidOption(
                _TARGET,
                "url",
                "it must not hold user and password; set authorization_env to a variable's name",
            )
        if self.method not in {"POST", "PUT", "PATCH"}:
            raise InvalidOption(_TARGET, "method", f"{self.method!r} is not one of POST, PUT, PATCH")
        if any(name.lower() == "authorization" for name, _ in self.headers):
            raise InvalidOption(_TARGET, "header.authorization", "set authorization_env to a variable's name instead")
        for name, value in self.headers:
            if not _HEADER_NAME.fullmatch(name):
                raise InvalidOption(_TARGET, f"header.{name}", "this is no name of a header")
            if problem := problem_of_value(value):
                raise InvalidOption(_TARGET, f"header.{name}", f"its value {problem}")
        if self.content_type is not None and (problem := problem_of_value(self.content_type)):
            raise InvalidOption(_TARGET, "content_type", f"it {problem}")
        self._check_proxy()
        for name, highest in (("connect_timeout_s", 600.0), ("timeout_s", 600.0)):
            if not 0.001 <= (value := getattr(self, name)) <= highest:
                raise InvalidOption(_TARGET, name, f"{value} is not within 0.001 and {highest}")
        if not 0.0 <= self.retry_after_max_s <= 86_400.0:
            raise InvalidOption(_TARGET, "retry_after_max_s", f"{self.retry_after_max_s} is not within 0 and 86400")
        if self.key_file and not self.cert_file:
            raise InvalidOption(_TARGET, "key_file", "cert_file is needed with it")

    def _check_proxy(self) -> None:
        if self.proxy is None:
            return
        try:
            proxy = httpx2.URL(self.proxy)
        except httpx2.InvalidURL as error:
            raise InvalidOption(_TARGET, "proxy", "this is no valid URL") from error
        if proxy.scheme not in {"http", "https", "socks5", "socks5h"} or not proxy.host:
            raise InvalidOption(_TARGET, "proxy", "a URL with http, https, socks5 or socks5h and a host is needed")

    @property
    def credential_files(self) -> tuple[CredentialFile, ...]:
        """Files of certificates and keys, for warnings about them."""
        return (
            CredentialFile("ca_file", self.ca_file or "", Kind.CERTIFICATES),
            CredentialFile("cert_file", self.cert_file or "", Kind.CERTIFICATES),
            CredentialFile("key_file", self.key_file or "", Kind.SECRET),
        )

    @property
    def is_plain(self) -> bool:
        """Whether what is sent can be read on its way."""
        return httpx2.URL(self.url).scheme == "http"

    @property
    def tls_layers(self) -> int:
        """Layers of TLS between the network and the target: its own, and that of an encrypted proxy."""
        through = self.proxy is not None and httpx2.URL(self.proxy).scheme == "https"
        return int(not self.is_plain) + int(through)

    @property
    def timeouts(self) -> dict[str, float]:
        """Bounds of the steps; the deadline of the exchange bounds them all together."""
        whole = self.timeout_s
        return {"connect": min(self.connect_timeout_s, whole), "read": whole, "write": whole, "pool": whole}

    @property
    def target_url(self) -> httpcore2.URL:
        """Where to send, as the pool takes it."""
        return _raw(httpx2.URL(self.url))

    def pool(self, connections: int, network: httpcore2.NetworkBackend) -> httpcore2.ConnectionPool:
        """Return the connections; `InvalidOption` if a certificate cannot be used."""
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
        kind = httpcore2.SOCKSProxy if proxy.url.scheme.startswith("socks5") else httpcore2.HTTPProxy
        return kind(_raw(proxy.url), proxy_auth=proxy.raw_auth, **common)

    @property
    def place(self) -> str:
        """Host and path for messages: no user, no password, no query."""
        url = httpx2.URL(self.url)
        return f"{url.scheme}://{url.netloc.decode('ascii')}{url.path}"

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> HttpSettings:
        """Build settings from options as a command line has them; `InvalidOption` names the one that is
        wrong.
        """
        values: dict[str, Any] = {
            "headers": tuple(
                (name.removeprefix("header."), value) for name, value in options.items() if name.startswith("header.")
            )
        }
        for name, text in options.items():
            if name.startswith("header."):
                continue
            if name not in _PARSERS:
                raise InvalidOption(_TARGET, name, f"there is no such option; there are {', '.join(sorted(_PARSERS))}")
            try:
                values[name] = _PARSERS[name](text)
            except ValueError as error:
                raise InvalidOption(_TARGET, name, str(error)) from error
        if "url" not in values:
            raise InvalidOption(_TARGET, "url", "it is needed")
        return cls(**values)

    def tls(self) -> ssl.SSLContext:
        """Return what the connection is verified with; `InvalidOption` if a file cannot be used."""
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


def problem_of_value(value: str) -> str:
    """Return what keeps a value out of a header, without a word of the value; nothing where it may go."""
    if value.isascii() and all(character.isprintable() or character == "\t" for character in value):
        return ""
    return "holds a control character or one outside of ASCII, which no header may"


def _raw(url: httpx2.URL) -> httpcore2.URL:
    return httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)


def _boolean(text: str) -> bool:
    values = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if text.lower() not in values:
        raise ValueError(f"{text!r} is neither true nor false")
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
