"""What a user may tune, as values. Every bound of the client stands here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypedDict

from holdfast.client.errors import InvalidSetting

DEFAULT_ENDPOINT: Final = "127.0.0.1:7461"
MESSAGE_BYTES_MAX: Final = 32 << 20
WINDOW_PAGES_MAX: Final = 256
"""The broker remembers so many pages of a writer and partition."""
PAGE_RECORDS_MAX: Final = 65_536
PAGE_BYTES_MAX: Final = 1 << 20


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

    tries_max: int = 8
    """Tries altogether."""

    delay_min_s: float = 0.05
    """Longest pause before the second try; the pause taken is random between half of it and all of it."""

    delay_max_s: float = 2.0
    """Longest pause at all, unless the broker asks for more."""

    delay_factor: float = 2.0
    """Growth of the pause."""

    budget_s: float = 20.0
    """No further try begins later than this after the first."""

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        check("tries_max", self.tries_max, 1, 1_000_000)
        check("delay_min_s", self.delay_min_s, 0.001, 3600)
        check("delay_max_s", self.delay_max_s, self.delay_min_s, 3600)
        check("delay_factor", self.delay_factor, 1, 10)
        check("budget_s", self.budget_s, 0, 86_400)


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Settings of a client and of all that is made by it."""

    call_timeout_s: float = 30.0
    """Bound for one try of a single call."""

    retry: RetryPolicy = RetryPolicy()
    """For single calls that may be repeated without harm."""

    reconnect: RetryPolicy = RetryPolicy(tries_max=1_000_000, budget_s=86_400)
    """Pauses between the tries of a publisher or subscriber to come back; they do not give up by count."""

    reattach_timeout_s: float = 120.0
    """How long a replay tries to go on after its stream broke, without reading anything."""

    keepalive_s: float = 60.0
    """An idle connection is probed so often; the broker allows 30 s and more."""

    keepalive_timeout_s: float = 20.0
    """A probe that stays unanswered so long ends the connection."""

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        check("call_timeout_s", self.call_timeout_s, 0.001, 86_400)
        check("reattach_timeout_s", self.reattach_timeout_s, 0, 86_400)
        check("keepalive_s", self.keepalive_s, 30, 86_400)
        check("keepalive_timeout_s", self.keepalive_timeout_s, 1, 3600)


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
