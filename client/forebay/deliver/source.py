"""Protocols of the client library, as far as the deliverer uses it.

`forebay.client.Client` implements them. As protocols they allow tests of the deliverer without a broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from opentelemetry.context import Context

    from forebay.client.values.records import StoredPage


class SourceRecord(Protocol):
    """Delivered record."""

    @property
    def offset(self) -> int:
        """Offset in the partition."""

    @property
    def key(self) -> bytes | None:
        """Key; ``None`` differs from empty."""

    @property
    def value(self) -> bytes:
        """Payload."""

    @property
    def headers(self) -> Sequence[tuple[str, bytes]]:
        """Headers in the writer's order."""

    @property
    def event_time(self) -> datetime | None:
        """Time of the event, as given by the writer."""

    @property
    def unreadable(self) -> str:
        """Reason that the record cannot be decoded, or empty."""


class RecordRun(Protocol):
    """Consecutive records as columns; a record is made when it is asked for."""

    @property
    def first_offset(self) -> int:
        """Offset of the first record."""

    @property
    def page(self) -> StoredPage:
        """Stored page, with the range of these records as the requested one."""

    @property
    def values(self) -> Sequence[bytes]:
        """Payload of each record."""

    @property
    def unreadable(self) -> Mapping[int, str]:
        """Index of each record that cannot be decoded, with the reason."""

    def __len__(self) -> int:
        """Return the number of records, at least 1."""

    def __iter__(self) -> Iterator[SourceRecord]:
        """Yield the records in order."""

    def sizes(self) -> Sequence[int]:
        """Return the bytes of key and value of each record."""

    def bytes_at_most(self) -> int:
        """Return an upper bound of the sum of ``sizes``, which is cheaper than these."""

    def part(self, first: int, end: int) -> RecordRun:
        """Return the records with the indices from ``first`` to below ``end``."""


class SettledRange(Protocol):
    """Result of an answer for one range."""

    @property
    def outcome(self) -> str:
        """`OK` when it is durable, `ALREADY_SETTLED`, or another value without effect."""


class SourceDelivery(Protocol):
    """Records of one partition in ascending order, to be settled.

    In STRICT order, after `nack_from` and after a `dead_letter` that was not accepted, the later records of the
    partition are void, in this delivery and in all earlier ones: they are redelivered, or wait. Answers to void records
    have no effect. In RELAXED order only the rejected records are void.
    """

    @property
    def partition(self) -> int:
        """Partition, from 0."""

    @property
    def incarnation(self) -> str:
        """Incarnation of the sink."""

    @property
    def gap(self) -> object | None:
        """Missing offsets; a delivery with a gap has no records and is not settled."""

    @property
    def first_offset(self) -> int:
        """First offset of the records or the gap."""

    @property
    def last_offset(self) -> int:
        """Last offset of the records or the gap."""

    @property
    def stored_bytes(self) -> int:
        """Bytes of the stored pages; 0 for a gap."""

    @property
    def valid_ranges(self) -> Sequence[tuple[int, int]]:
        """Offsets that are not void, both ends included. Void records must not be sent: they are redelivered."""

    @property
    def relaxed(self) -> bool:
        """True if a nack voids no other record."""

    @property
    def resend(self) -> bool:
        """True if at least one record was delivered before."""

    @property
    def trace_context(self) -> Context | None:
        """OpenTelemetry context of the processing, whose span is linked to those that published its records."""

    def runs(self) -> Iterator[RecordRun]:
        """Yield the records that are not void, including undecodable ones; extends the deadline if due."""

    def extend(self) -> None:
        """Extend the ack deadline if it is due."""

    def ack(self, first: int | None = None, last: int | None = None) -> object:
        """Settle the offsets ``first`` to ``last``, both included."""

    def nack_from(
        self, offset: int, *, last: int | None = None, delay_s: float | None = None, reason: str = ""
    ) -> object:
        """Reject ``offset`` and all later ones, or up to ``last``, for redelivery not before ``delay_s``."""

    def dead_letter(
        self, reason: str, *, offset: int | None = None, last: int | None = None, wait: bool = False
    ) -> Sequence[SettledRange]:
        """Dead-letter ``offset``, or all up to ``last``; with ``wait`` return the results.

        Raises ``DeadlineExceeded`` if there is no answer in time; the same call then waits for the same answer.
        """


class Source(Protocol):
    """Open subscription."""

    def __iter__(self) -> Iterator[SourceDelivery]:
        """Yield deliveries until `close`; survives a broken connection."""

    def close(self) -> None:
        """End the iteration, from any thread. Idempotent."""


class SourceClient(Protocol):
    """Factory of subscriptions."""

    def subscriber(
        self,
        sink: str,
        *,
        subscription: str = ...,
        consumer_id: str | None = ...,
        credit_records: int = ...,
        credit_bytes: int = ...,
        program: str = ...,
    ) -> Source:
        """Subscribe to a sink; ``credit_*`` bound what is in flight, ``program`` is shown to operators."""
