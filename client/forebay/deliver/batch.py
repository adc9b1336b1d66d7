"""Batch: consecutive records of one partition that are sent to a target together.

A batch has no holes, so that its first and last offset identify its content, and so do the idempotency keys made from
them. Batches are cut from a delivery lazily, because taking a record extends the ack deadline.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from forebay.deliver.source import SourceDelivery, SourceRecord

UNLIMITED: Final = 1 << 30
"""Limit that is left to the target."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Upper bounds of a batch."""

    records_max: int = 500
    """Maximum number of records, at least 1."""

    bytes_max: int = 1 << 20
    """Maximum bytes of keys and values; a larger record is sent alone."""

    def __post_init__(self) -> None:
        """Reject limits under which nothing could be sent."""
        for name in ("records_max", "bytes_max"):
            if (value := getattr(self, name)) < 1:
                raise ValueError(f"{name} = {value}: must be at least 1")

    @classmethod
    def given(cls, records: int | None, size: int | None) -> BatchLimits | None:
        """Return limits of which one may be left to the target, or None if both are."""
        if records is None and size is None:
            return None
        return cls(UNLIMITED if records is None else records, UNLIMITED if size is None else size)

    @classmethod
    def of_target(cls) -> BatchLimits:
        """Return limits that leave both to the target."""
        return cls(UNLIMITED, UNLIMITED)

    def completed(self) -> BatchLimits:
        """Return these limits, with the usual ones for those that are left open."""
        usual = BatchLimits()
        return BatchLimits(
            usual.records_max if self.records_max == UNLIMITED else self.records_max,
            usual.bytes_max if self.bytes_max == UNLIMITED else self.bytes_max,
        )

    def within(self, other: BatchLimits) -> BatchLimits:
        """Return the tighter limits of both."""
        return BatchLimits(
            records_max=min(self.records_max, other.records_max),
            bytes_max=min(self.bytes_max, other.bytes_max),
        )


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive records of one partition of one sink."""

    sink: str
    """Name of the sink."""

    incarnation: str
    """Incarnation of the sink: a sink that was deleted and recreated reuses offsets."""

    partition: int
    """Partition, from 0."""

    records: tuple[SourceRecord, ...]
    """At least one record; offsets are consecutive."""

    resend: bool = False
    """At least one record was delivered before, possibly to another target."""

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.records)

    @property
    def first_offset(self) -> int:
        """Offset of the first record."""
        return self.records[0].offset

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""
        return self.records[-1].offset

    @property
    def key(self) -> str:
        """Idempotency key of the batch: equal for equal records."""
        return f"{self.incarnation}-{self.partition}-{self.first_offset}-{self.last_offset}"

    def record_key(self, offset: int) -> str:
        """Return the idempotency key of one record, independent of the batches."""
        return f"{self.incarnation}-{self.partition}-{offset}"

    def only(self, index: int) -> Batch:
        """Return the batch of one record."""
        return replace(self, records=self.records[index : index + 1])

    def after(self, count: int) -> Batch:
        """Return the rest after the first ``count`` records; ``count`` is below the length."""
        return replace(self, records=self.records[count:])

    def below(self, offset: int) -> Batch | None:
        """Return the records below an offset; ``None`` if there are none."""
        if offset > self.last_offset:
            return self
        count = offset - self.first_offset
        return replace(self, records=self.records[:count]) if count > 0 else None

    def halves(self) -> tuple[Batch, Batch]:
        """Return both halves of a batch with at least two records."""
        middle = len(self.records) // 2
        return replace(self, records=self.records[:middle]), self.after(middle)


@dataclass(frozen=True, slots=True)
class UnreadableRange:
    """Consecutive records that cannot be decoded."""

    first_offset: int
    last_offset: int
    reason: str


def batches_of(sink: str, delivery: SourceDelivery, limits: BatchLimits) -> Iterator[Batch | UnreadableRange]:
    """Cut a delivery into batches, in order.

    Takes at most one record more from the delivery than the next batch needs. Records that cannot be decoded are
    yielded between the batches.
    """
    records: list[SourceRecord] = []
    unreadable: UnreadableRange | None = None
    size = 0
    for record in delivery.with_unreadable():
        length = len(record.value) + len(record.key or b"")
        full = len(records) >= limits.records_max or size + length > limits.bytes_max
        if records and (full or record.unreadable or record.offset != records[-1].offset + 1):
            yield Batch(sink, delivery.incarnation, delivery.partition, tuple(records), delivery.resend)
            records, size = [], 0
        if unreadable is not None and (
            record.unreadable != unreadable.reason or record.offset != unreadable.last_offset + 1
        ):
            yield unreadable
            unreadable = None
        if record.unreadable:
            first = record.offset if unreadable is None else unreadable.first_offset
            unreadable = UnreadableRange(first, record.offset, record.unreadable)
            continue
        records.append(record)
        size += length
    if records:
        yield Batch(sink, delivery.incarnation, delivery.partition, tuple(records), delivery.resend)
    if unreadable is not None:
        yield unreadable
