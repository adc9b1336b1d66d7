"""Batch: consecutive records of one partition that are sent to a target together.

A batch has no holes, so that its first and last offset identify its content, and so do the idempotency keys made from
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from forebay.client.values.records import StoredPage
from forebay.deliver.batches.records import BatchRecords
from forebay.deliver.source import SourceRecord


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive records of one partition of one sink."""

    sink: str
    """Name of the sink."""

    incarnation: str
    """Incarnation of the sink: a sink that was deleted and recreated reuses offsets."""

    partition: int
    """Partition, from 0."""

    records: Sequence[SourceRecord]
    """At least one record; offsets are consecutive."""

    resend: bool = False
    """At least one record was delivered before, possibly to another target."""

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.records)

    @property
    def first_offset(self) -> int:
        """Offset of the first record."""
        records = self.records
        return records.first_offset if isinstance(records, BatchRecords) else records[0].offset

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""
        return self.first_offset + len(self.records) - 1

    @property
    def values(self) -> list[bytes]:
        """Payloads of all records, which is much faster than one record after the other."""
        records = self.records
        return records.values if isinstance(records, BatchRecords) else [record.value for record in records]

    @property
    def key(self) -> str:
        """Idempotency key of the batch: equal for equal records."""
        return f"{self.incarnation}-{self.partition}-{self.first_offset}-{self.last_offset}"

    def record_key(self, offset: int) -> str:
        """Return the idempotency key of one record, independent of the batches."""
        return f"{self.incarnation}-{self.partition}-{offset}"

    @property
    def pages(self) -> list[StoredPage]:
        """Stored pages, each with the range of this batch as the requested one.

        For targets that take rows: `forebay.client.arrow` reads them as Arrow batches. Empty for a batch that was made
        of single records.
        """
        records = self.records
        return records.pages if isinstance(records, BatchRecords) else []

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

    def from_offset(self, offset: int) -> Batch | None:
        """Return the records from an offset on; ``None`` if there are none."""
        if offset > self.last_offset:
            return None
        return self.after(offset - self.first_offset) if offset > self.first_offset else self

    def halves(self) -> tuple[Batch, Batch]:
        """Return both halves of a batch with at least two records."""
        middle = len(self.records) // 2
        return replace(self, records=self.records[:middle]), self.after(middle)
