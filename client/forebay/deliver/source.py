"""What the deliverer needs of the client library, and nothing more.

`forebay.client.Client` has all of this. Stated as protocols, the core of the deliverer runs in tests
without a broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from opentelemetry.trace import Span


class SourceRecord(Protocol):
    """One record as it was delivered."""

    @property
    def offset(self) -> int:
        """Its place in the partition."""

    @property
    def key(self) -> bytes | None:
        """Its key; absent is not the same as empty."""

    @property
    def value(self) -> bytes:
        """Its payload."""

    @property
    def headers(self) -> Sequence[tuple[str, bytes]]:
        """Its headers, in the writer's order."""

    @property
    def event_time(self) -> datetime | None:
        """When the thing happened that it speaks of, as its writer said."""

    @property
    def unreadable(self) -> str:
        """Why it cannot be decoded, or nothing."""


class SettledRange(Protocol):
    """What became of an answer."""

    @property
    def outcome(self) -> str:
        """`OK` when it is durable, `ALREADY_SETTLED`, or that it did not count."""


class SourceDelivery(Protocol):
    """Records of one partition in rising order, each to be settled.

    In STRICT order, after `nack_from` and after a `dead_letter` that was not taken, the records of the partition from
    there on are void, in this delivery and in all that were handed out before: they come again, or wait. Answers to
    void records count for nothing. In RELAXED order only what was given back is void.
    """

    @property
    def partition(self) -> int:
        """Partition, from 0."""

    @property
    def incarnation(self) -> str:
        """Which sink of this name it is."""

    @property
    def gap(self) -> object | None:
        """Offsets that will never come; a delivery with a gap has no records and is not settled."""

    @property
    def void_from(self) -> int | None:
        """Records from this offset on are void: sent now, they would be sent out of order, or twice."""

    @property
    def relaxed(self) -> bool:
        """Whether giving back some of it leaves the rest as it is."""

    @property
    def resend(self) -> bool:
        """Whether some of it was delivered before."""

    @property
    def span(self) -> Span | None:
        """The span of processing it, linked to the spans that published its records."""

    def with_unreadable(self) -> Iterator[SourceRecord]:
        """Yield the records that are not void, readable or not; taking one asks for more time when it is due."""

    def extend(self) -> None:
        """Ask for more time when it is due."""

    def ack(self, first: int | None = None, last: int | None = None) -> object:
        """Settle the offsets ``first`` to ``last``, both included."""

    def nack_from(
        self, offset: int, *, last: int | None = None, delay_s: float | None = None, reason: str = ""
    ) -> object:
        """Give back ``offset`` and all after it, or up to ``last``, not to come again before ``delay_s``."""

    def dead_letter(
        self, reason: str, *, offset: int | None = None, last: int | None = None, wait: bool = False
    ) -> Sequence[SettledRange]:
        """Say that the target will never take ``offset``, or all up to ``last``; with ``wait`` return the outcome.

        Raises ``DeadlineExceeded`` where the answer does not come.
        """


class Source(Protocol):
    """An open subscription."""

    def __iter__(self) -> Iterator[SourceDelivery]:
        """Yield deliveries until `close`; survives a broken connection."""

    def close(self) -> None:
        """End the iteration. From any thread, and more than once."""


class SourceClient(Protocol):
    """Opens subscriptions."""

    def subscriber(
        self,
        sink: str,
        *,
        subscription: str = ...,
        consumer_id: str | None = ...,
        credit_records: int = ...,
        credit_bytes: int = ...,
    ) -> Source:
        """Subscribe to a sink; ``credit_*`` bound what is handed out and not yet settled."""
