"""What a user may tune, as values. Every bound of the client stands here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final, Self, TypedDict

from forebay.client.errors import CredentialsUnusable, InvalidSetting
from forebay.page.format import PAGE_BYTES_MAX, PAGE_RECORDS_MAX

DEFAULT_ENDPOINT: Final = "127.0.0.1:7461"
MESSAGE_BYTES_MAX: Final = 32 << 20
WINDOW_PAGES_MAX: Final = 256
"""The broker remembers so many pages of a writer and partition."""


def check(name: str, value: float, lowest: float, highest: float) -> None:
    """Raise ``InvalidSetting`` unless ``lowest <= value <= highest``."""
    if not lowest <= value <= highest:
        allowed = f"{lowest:g} to {highest:g}"
        raise InvalidSetting(
            f"{name} = {value}: must be {allowed}",
            facts={"field": name, "value": str(value), "allowed": allowed},
        )


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and when a call is tried again while the broker is away."""

    tries_max: int | None = 8
    """Tries altogether; None for no limit."""

    delay_min_s: float = 0.05
    """Longest pause before the second try; the pause taken is random between half of it and all of it."""

    delay_max_s: float = 2.0
    """Longest pause at all, unless the broker asks for more."""

    delay_factor: float = 2.0
    """Growth of the pause."""

    budget_s: float | None = 20.0
    """No further try begins later than this after the first failure; None for no limit."""

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if self.tries_max is not None:
            check("tries_max", self.tries_max, 1, 1_000_000)
        check("delay_min_s", self.delay_min_s, 0.001, 3600)
        check("delay_max_s", self.delay_max_s, self.delay_min_s, 3600)
        check("delay_factor", self.delay_factor, 1, 10)
        if self.budget_s is not None:
            check("budget_s", self.budget_s, 0, 86_400)


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """How connections are encrypted. The files are read at first use, and again once they have changed."""

    ca_file: str = ""
    """PEM file of the authorities that the broker's certificate is checked by; empty for those that gRPC brings."""

    cert_file: str = ""
    """PEM file of the client's own certificate, for a broker that demands one."""

    key_file: str = ""
    """PEM file of that certificate's private key, without a password."""

    server_name: str = ""
    """Name that the broker's certificate has to have; empty for the host of the endpoint."""

    def __post_init__(self) -> None:
        """Refuse a half of what belongs together."""
        if bool(self.cert_file) != bool(self.key_file):
            name = "key_file" if self.cert_file else "cert_file"
            raise InvalidSetting(
                f"tls.{name}: a client's certificate and its key belong together", facts={"field": f"tls.{name}"}
            )


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Settings of a client and of all that is made by it. Those that hold a token itself cannot be pickled."""

    call_timeout_s: float = 30.0
    """Bound for one try of a single call."""

    retry: RetryPolicy = RetryPolicy()
    """For single calls that may be repeated without harm."""

    reconnect: RetryPolicy = RetryPolicy(tries_max=None, budget_s=None)
    """Pauses between the tries of a publisher or subscriber to reconnect; by default without an end."""

    reattach_timeout_s: float = 120.0
    """How long a replay tries to go on after its stream broke, without reading anything."""

    keepalive_s: float = 60.0
    """An idle connection is probed so often; the broker allows 30 s and more."""

    keepalive_timeout_s: float = 20.0
    """A probe that stays unanswered so long ends the connection."""

    connect_timeout_s: float = 10.0
    """Bound for one attempt to connect: name, TCP, TLS and the first frames of HTTP/2 together."""

    handshake_patience_s: float = 60.0
    """How long TLS or a certificate may be wrong before a publisher, subscriber or call gives up on a broker that it
    had reached before; one that was never reached is given up on after half a second."""

    tls: TlsSettings | None = None
    """How connections are encrypted; None leaves them plain."""

    token: str = field(default="", repr=False)
    """What the broker knows the caller by. At most one of this and the next two."""

    token_file: str = ""
    """File whose first line is the token; read with each call, so that it may change."""

    token_env: str = ""
    """Environment variable that has the token; read with each call."""

    token_without_tls: bool = False
    """The token may go unencrypted to another machine: over a network that encrypts by itself."""

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        given = [name for name in ("token", "token_file", "token_env") if getattr(self, name)]
        if len(given) > 1:
            raise InvalidSetting(f"{' and '.join(given)}: set one of them", facts={"field": given[1]})
        check("call_timeout_s", self.call_timeout_s, 0.001, 86_400)
        check("reattach_timeout_s", self.reattach_timeout_s, 0, 86_400)
        check("connect_timeout_s", self.connect_timeout_s, 0.01, 600)
        check("handshake_patience_s", self.handshake_patience_s, 0, 86_400)
        check("keepalive_s", self.keepalive_s, 30, 86_400)
        check("keepalive_timeout_s", self.keepalive_timeout_s, 1, 3600)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Self:
        """Return the defaults with TLS and token as the environment has them: see the table ``ENVIRONMENT``.

        Without an argument it is the environment of this process.
        """
        given = os.environ if environment is None else environment
        found = {name: given.get(variable, "").strip() for name, variable in ENVIRONMENT.items()}
        files = {name: found[name] for name in ("ca_file", "cert_file", "key_file", "server_name")}
        for name in ("tls", "token_without_tls"):
            if found[name].lower() not in {"", "true", "false"}:
                raise InvalidSetting(
                    f"{ENVIRONMENT[name]} = {found[name]}: must be true or false", facts={"field": name}
                )
        wanted = found["tls"].lower() == "true" or (not found["tls"] and any(files.values()))
        return cls(
            tls=TlsSettings(**files) if wanted else None,
            token_file="" if found["token"] else found["token_file"],
            token_env=ENVIRONMENT["token"] if found["token"] else "",
            token_without_tls=found["token_without_tls"].lower() == "true",
        )

    def __reduce__(self) -> tuple[object, ...]:
        """Travel between processes, but never with a token."""
        if self.token:
            raise CredentialsUnusable(
                "settings that hold a token cannot be pickled: it would stand in what is stored or sent; set "
                "token_env or token_file to where the other process finds it",
                facts={"field": "token"},
            )
        return (_settings, tuple(getattr(self, one.name) for one in fields(self)))


def _settings(*values: object) -> ClientSettings:
    return ClientSettings(**dict(zip((one.name for one in fields(ClientSettings)), values, strict=True)))  # type: ignore[arg-type]  # as they were taken apart


ENVIRONMENT: Final[Mapping[str, str]] = {
    "tls": "FOREBAY_TLS",
    "ca_file": "FOREBAY_TLS_CA_FILE",
    "cert_file": "FOREBAY_TLS_CERT_FILE",
    "key_file": "FOREBAY_TLS_KEY_FILE",
    "server_name": "FOREBAY_TLS_SERVER_NAME",
    "token": "FOREBAY_TOKEN",
    "token_file": "FOREBAY_TOKEN_FILE",
    "token_without_tls": "FOREBAY_TOKEN_WITHOUT_TLS",
}
"""Which variable has which setting. One of the names of TLS turns it on, unless ``FOREBAY_TLS`` is false."""


@dataclass(frozen=True, slots=True)
class PublisherSettings:
    """Settings of one publisher."""

    page_bytes: int = PAGE_BYTES_MAX
    """A page is sent when it has reached about this many bytes; one larger record stands alone."""

    page_records: int = PAGE_RECORDS_MAX
    """A page is sent when it has this many records."""

    linger_ms: float = 5.0
    """A page that is not full waits this long for more records. 0 sends as soon as the stream is free."""

    window_pages: int = 96
    """Most pages of one partition that wait for their receipt."""

    buffer_bytes_max: int = 64 << 20
    """Most bytes that are not durable yet; ``send`` blocks at it. One larger record or page is taken alone."""

    delivery_timeout_s: float = 120.0
    """Records that are not durable after this long fail with ``DeliveryTimeout``."""

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        check("page_bytes", self.page_bytes, 1024, PAGE_BYTES_MAX)
        check("page_records", self.page_records, 1, PAGE_RECORDS_MAX)
        check("linger_ms", self.linger_ms, 0, 60_000)
        check("window_pages", self.window_pages, 1, WINDOW_PAGES_MAX)
        check("buffer_bytes_max", self.buffer_bytes_max, 1024, 1 << 40)
        check("delivery_timeout_s", self.delivery_timeout_s, 0.001, 86_400)


@dataclass(frozen=True, slots=True)
class SubscriberSettings:
    """Settings of one subscriber."""

    credit_records: int = 100_000
    """Records that may be in flight: sent and not settled."""

    credit_bytes: int = 16 << 20
    """Bytes that may be in flight; passed by at most one page."""

    reconnect: bool = True
    """Come back by itself when the stream breaks. Otherwise the iteration raises what broke it."""

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        check("credit_records", self.credit_records, 1, 10_000_000)
        check("credit_bytes", self.credit_bytes, 1, 1 << 30)


class PublisherOptions(TypedDict, total=False):
    """The fields of :class:`PublisherSettings` as keywords."""

    page_bytes: int
    page_records: int
    linger_ms: float
    window_pages: int
    buffer_bytes_max: int
    delivery_timeout_s: float
