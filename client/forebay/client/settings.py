"""Settings of the client, publishers and subscribers, with their bounds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from numbers import Real
from typing import Final, Self, TypedDict

from forebay.client.errors import CredentialsUnusable, InvalidArgument
from forebay.errors.reasons import Reason
from forebay.page.format import PAGE_BYTES_MAX, PAGE_RECORDS_MAX

DEFAULT_ENDPOINT: Final = "127.0.0.1:7461"
MESSAGE_BYTES_MAX: Final = 32 << 20
WINDOW_PAGES_MAX: Final = 256
"""Number of pages per writer and partition that the broker remembers."""


def check(name: str, value: float, lowest: float, highest: float) -> None:
    """Raise ``INVALID_SETTING`` unless it is a number with ``lowest <= value <= highest``."""
    given: object = value  # whatever its annotation says
    if isinstance(given, bool) or not isinstance(given, Real):
        raise invalid_setting(name, repr(value), f"a number, {lowest:.15g} to {highest:.15g}")
    if not lowest <= value <= highest:
        raise invalid_setting(name, value, f"{lowest:.15g} to {highest:.15g}")


def invalid_setting(name: str, value: object, allowed: str, problem: str = "") -> InvalidArgument:
    """Return the error for the value of a setting.

    ``problem`` replaces the sentence about the allowed values.
    """
    return InvalidArgument(
        f"{name} = {value}: {problem or f'must be {allowed}'}",
        reason=Reason.INVALID_SETTING,
        facts={"field": name, "value": str(value), "allowed": allowed},
    )


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Retry policy for calls while the broker is unavailable."""

    tries_max: int | None = 8
    """Maximum number of attempts, the first included; None is unlimited."""

    delay_min_s: float = 0.05
    """Upper bound of the first delay; the actual delay is random between half of the bound and the bound."""

    delay_max_s: float = 2.0
    """Upper bound of all delays, unless the broker requests a longer one."""

    delay_factor: float = 2.0
    """Growth factor of the delay."""

    budget_s: float | None = 20.0
    """Time after the first failure at which retries end; None is unlimited."""

    def __post_init__(self) -> None:
        """Reject values that are out of bounds."""
        if self.tries_max is not None:
            check("tries_max", self.tries_max, 1, 1_000_000)
        check("delay_min_s", self.delay_min_s, 0.001, 3600)
        check("delay_max_s", self.delay_max_s, self.delay_min_s, 3600)
        check("delay_factor", self.delay_factor, 1, 10)
        if self.budget_s is not None:
            check("budget_s", self.budget_s, 0, 86_400)


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS settings of connections.

    The files are read at first use, and again after they have changed.
    """

    ca_file: str = ""
    """PEM file of the certificate authorities for the broker's certificate; empty uses gRPC's default."""

    cert_file: str = ""
    """PEM file of the client certificate, for a broker that requires one."""

    key_file: str = ""
    """PEM file of the private key of the client certificate, without a password."""

    server_name: str = ""
    """Expected name in the broker's certificate; empty expects the host of the endpoint."""

    def __post_init__(self) -> None:
        """Reject a certificate without a key and a key without a certificate."""
        if bool(self.cert_file) != bool(self.key_file):
            name = "key_file" if self.cert_file else "cert_file"
            raise InvalidArgument(
                f"tls.{name}: cert_file and key_file must be set together",
                reason=Reason.INVALID_SETTING,
                facts={"field": f"tls.{name}"},
            )


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Settings of a client and of everything opened by it.

    Settings that contain a token, instead of its file or variable, cannot be pickled.
    """

    call_timeout_s: float = 30.0
    """Time limit of one attempt of a unary call."""

    retry: RetryPolicy = RetryPolicy()
    """Retry policy of unary calls that are safe to repeat."""

    reconnect: RetryPolicy = RetryPolicy(tries_max=None, budget_s=None)
    """Delays between attempts of a publisher or subscriber to reconnect; unlimited by default."""

    reattach_timeout_s: float = 120.0
    """Time that a replay tries to resume after its stream broke, while it receives nothing."""

    keepalive_s: float = 60.0
    """Interval of keepalive probes on an idle connection; the broker allows 30 s and more."""

    keepalive_timeout_s: float = 20.0
    """Time limit for the answer to a keepalive probe; then the connection is closed."""

    connect_timeout_s: float = 10.0
    """Time limit of one connection attempt: name resolution, TCP, TLS and HTTP/2 preface together."""

    handshake_patience_s: float = 60.0
    """Time that TLS failures of a broker that was reached before are retried.

    Then the publisher, subscriber or call fails. A broker that was never reached gets half a second.
    """

    tls: TlsSettings | None = None
    """TLS settings; None connects without encryption."""

    token: str = field(default="", repr=False)
    """Token that identifies the caller to the broker.

    At most one of ``token``, ``token_file`` and ``token_env`` may be set.
    """

    token_file: str = ""
    """File whose first line is the token; read for each call, so that the token can be rotated."""

    token_env: str = ""
    """Environment variable that contains the token; read for each call."""

    token_without_tls: bool = False
    """Allow the token on unencrypted connections to other machines, for networks that encrypt themselves."""

    def __post_init__(self) -> None:
        """Reject values that are out of bounds or contradict each other."""
        given = [name for name in ("token", "token_file", "token_env") if getattr(self, name)]
        if len(given) > 1:
            raise InvalidArgument(
                f"{' and '.join(given)} are set: set only one of them",
                reason=Reason.INVALID_SETTING,
                facts={"field": given[1]},
            )
        check("call_timeout_s", self.call_timeout_s, 0.001, 86_400)
        check("reattach_timeout_s", self.reattach_timeout_s, 0, 86_400)
        check("connect_timeout_s", self.connect_timeout_s, 0.01, 600)
        check("handshake_patience_s", self.handshake_patience_s, 0, 86_400)
        check("keepalive_s", self.keepalive_s, 30, 86_400)
        check("keepalive_timeout_s", self.keepalive_timeout_s, 1, 3600)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Self:
        """Return the defaults with TLS and token of the environment: see the table ``ENVIRONMENT``.

        The default is the environment of this process.
        """
        given = os.environ if environment is None else environment
        found = {name: given.get(variable, "").strip() for name, variable in ENVIRONMENT.items()}
        files = {name: found[name] for name in ("ca_file", "cert_file", "key_file", "server_name")}
        for name in ("tls", "token_without_tls"):
            if found[name].lower() not in {"", "true", "false"}:
                raise InvalidArgument(
                    f"{ENVIRONMENT[name]} = {found[name]}: must be true or false",
                    reason=Reason.INVALID_SETTING,
                    facts={"field": name},
                )
        wanted = found["tls"].lower() == "true" or (not found["tls"] and any(files.values()))
        return cls(
            tls=TlsSettings(**files) if wanted else None,
            token_file="" if found["token"] else found["token_file"],
            token_env=ENVIRONMENT["token"] if found["token"] else "",
            token_without_tls=found["token_without_tls"].lower() == "true",
        )

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the settings; raises ``CredentialsUnusable`` if they contain a token."""
        if self.token:
            raise CredentialsUnusable(
                "settings that contain a token cannot be pickled, because the pickle would expose it: set "
                "token_env or token_file, with a value that is valid in the other process",
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
"""Environment variables by setting.

A variable of TLS enables TLS, unless ``FOREBAY_TLS`` is false.
"""


@dataclass(frozen=True, slots=True)
class PublisherSettings:
    """Settings of one publisher."""

    page_bytes: int = PAGE_BYTES_MAX
    """Size in bytes at which a page is sent; approximate. A larger record is sent in a page of its own."""

    page_records: int = PAGE_RECORDS_MAX
    """Number of records at which a page is sent."""

    linger_ms: float = 5.0
    """Time that an incomplete page waits for more records; 0 sends as soon as the stream is free.

    A caller that waits for the result of a record ends the wait, and so does ``flush``.
    """

    window_pages: int = 96
    """Maximum number of pages per partition that await their receipt."""

    buffer_bytes_max: int = 64 << 20
    """Maximum memory of records and pages that are not durable yet; at the maximum, ``send`` blocks.

    A record counts its bytes and 48 more for each of value, key, headers and event time, so that it bounds memory with
    small records too. A page that is encoded counts the bytes of its body. A record or page that is larger is accepted
    while the buffer is empty.
    """

    delivery_timeout_s: float = 120.0
    """Time after which records that are not durable fail with ``DeliveryTimeout``."""

    def __post_init__(self) -> None:
        """Reject values that are out of bounds."""
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
    """Maximum number of records in flight: delivered and not settled."""

    credit_bytes: int = 16 << 20
    """Maximum of bytes in flight; exceeded by at most one page."""

    reconnect: bool = True
    """Reconnect when the stream breaks; otherwise the iteration raises the cause."""

    def __post_init__(self) -> None:
        """Reject values that are out of bounds."""
        check("credit_records", self.credit_records, 1, 10_000_000)
        check("credit_bytes", self.credit_bytes, 1, 1 << 30)


class SubscriberOptions(TypedDict, total=False):
    """Fields of :class:`SubscriberSettings` as keywords."""

    credit_records: int
    credit_bytes: int
    reconnect: bool


class PublisherOptions(TypedDict, total=False):
    """Fields of :class:`PublisherSettings` as keywords."""

    page_bytes: int
    page_records: int
    linger_ms: float
    window_pages: int
    buffer_bytes_max: int
    delivery_timeout_s: float
