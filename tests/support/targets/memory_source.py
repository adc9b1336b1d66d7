"""A subscription without a broker: partitions of records in memory, settled as a STRICT sink settles them.

After a nack, delivery restarts at once from that record on; a dead letter is settled, or voids what is after it. Every
answer is written down, so that tests can compare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from queue import SimpleQueue
from threading import RLock

from opentelemetry.context import Context

from forebay.client import DeadlineExceeded, StoredPage
from forebay.client.publish.pages import encode_columns

INCARNATION = "1f2e-3d"
EVENT_TIME = datetime(2024, 5, 1, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class MemoryRecord:
    """One record."""

    offset: int
    value: bytes
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes]] = ()
    event_time: datetime | None = None
    unreadable: str = ""


@dataclass(frozen=True, slots=True)
class MemoryRun:
    """Consecutive records."""

    records: Sequence[MemoryRecord]
    bound: int = 0
    """Bytes by which the upper bound of a record is above its bytes."""

    @property
    def first_offset(self) -> int:
        return self.records[0].offset

    @property
    def page(self) -> StoredPage:
        encoded = encode_columns(self.values)
        last = self.first_offset + len(self) - 1
        return StoredPage(
            *(0, self.first_offset, len(self), encoded.encoding, encoded.body, (), self.first_offset, last)
        )

    @property
    def values(self) -> list[bytes]:
        return [record.value for record in self.records]

    @property
    def unreadable(self) -> dict[int, str]:
        return {index: record.unreadable for index, record in enumerate(self.records) if record.unreadable}

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[MemoryRecord]:
        return iter(self.records)

    def sizes(self) -> list[int]:
        return [len(record.value) + len(record.key or b"") for record in self.records]

    def bytes_at_most(self) -> int:
        return sum(self.sizes()) + self.bound * len(self)

    def part(self, first: int, end: int) -> MemoryRun:
        return MemoryRun(self.records[first:end], self.bound)


def runs(records: Sequence[MemoryRecord]) -> Iterator[MemoryRun]:
    """Yield runs that end where an offset is missing."""
    first = 0
    for end in range(1, len(records) + 1):
        if end == len(records) or records[end].offset != records[end - 1].offset + 1:
            yield MemoryRun(records[first:end])
            first = end


def records(count: int, *, first: int = 0, size: int = 4) -> list[MemoryRecord]:
    """Return records whose values are their offsets, padded."""
    return [MemoryRecord(offset, b"%0*d" % (size, offset)) for offset in range(first, first + count)]


@dataclass(frozen=True, slots=True)
class MemoryResult:
    """Outcome of an answer."""

    outcome: str


@dataclass(slots=True, eq=False)
class MemoryDelivery:
    """A delivery of a `MemorySource`, or of none."""

    records: Sequence[MemoryRecord]
    partition: int = 0
    incarnation: str = INCARNATION
    gap: object | None = None
    void_from: int | None = None
    relaxed: bool = False
    resend: bool = False
    trace_context: Context | None = None
    source: MemorySource | None = None
    acked: list[tuple[int, int]] = field(default_factory=list)
    given_back: list[tuple[int, float | None, str]] = field(default_factory=list)
    given_back_last: list[int | None] = field(default_factory=list)
    dead: list[tuple[int, str]] = field(default_factory=list)
    takes_dead_letters: bool = True
    confirms: Callable[[], bool] = lambda: True
    """Returns False if the broker does not confirm a dead letter in time; asked by each call."""
    extended: int = 0

    @property
    def first_offset(self) -> int:
        return self.records[0].offset if self.records else 0

    @property
    def last_offset(self) -> int:
        return self.records[-1].offset if self.records else 0

    @property
    def stored_bytes(self) -> int:
        return sum(len(record.value) for record in self.records)

    @property
    def valid_ranges(self) -> list[tuple[int, int]]:
        return [(record.offset, record.offset) for record in self.valid_records()]

    def valid_records(self) -> list[MemoryRecord]:
        return [record for record in self.records if self.void_from is None or record.offset < self.void_from]

    def runs(self) -> Iterator[MemoryRun]:
        for run in runs(self.records):
            valid = [record for record in run.records if self.void_from is None or record.offset < self.void_from]
            if valid:
                yield MemoryRun(valid)

    def extend(self) -> None:
        self.extended += 1

    def ack(self, first: int | None = None, last: int | None = None) -> None:
        assert first is not None
        assert last is not None
        assert self.void_from is None or last < self.void_from
        self.acked.append((first, last))
        if self.source is not None:
            self.source.settled(self.partition, first, last)

    def nack_from(
        self, offset: int, *, last: int | None = None, delay_s: float | None = None, reason: str = ""
    ) -> None:
        self.given_back.append((offset, delay_s, reason))
        self.given_back_last.append(last)
        if self.relaxed:
            return
        self.void_from = offset
        if self.source is not None:
            self.source.again(self.partition, offset)

    def dead_letter(
        self, reason: str, *, offset: int | None = None, last: int | None = None, wait: bool = False
    ) -> list[MemoryResult]:
        assert offset is not None
        assert wait is not self.relaxed
        last = offset if last is None else last
        dead = [(each, reason) for each in range(offset, last + 1)]
        self.dead += [each for each in dead if each not in self.dead]  # a repeated call waits for the same answer
        if not self.confirms():
            raise DeadlineExceeded("no answer")
        if not self.takes_dead_letters:
            if not self.relaxed:
                self.void_from = offset
            return [MemoryResult("STALE")]
        if self.source is not None:
            self.source.settled(self.partition, offset, last)
        return [MemoryResult("OK")]


class MemorySource:
    """Opens one subscription over records in memory. Thread-safe."""

    def __init__(self, partitions: Sequence[Sequence[MemoryRecord]], *, per_delivery: int) -> None:
        self._lock = RLock()
        self._partitions = [list(partition) for partition in partitions]
        self._per_delivery = per_delivery
        self._queue: SimpleQueue[MemoryDelivery | None] = SimpleQueue()
        self._handed_out: list[MemoryDelivery] = []
        self.settled_offsets: list[set[int]] = [set() for _ in partitions]
        self.some_settled: SimpleQueue[bool] = SimpleQueue()
        self.all_settled: SimpleQueue[bool] = SimpleQueue()
        self.opened_with: dict[str, object] = {}
        self.credit = (0, 0)

    def subscriber(
        self,
        sink: str,
        *,
        subscription: str = "default",
        consumer_id: str | None = None,
        credit_records: int = 1,
        credit_bytes: int = 1,
        program: str = "",
    ) -> MemorySource:
        self.opened_with = {"sink": sink, "subscription": subscription, "consumer_id": consumer_id}
        self.credit = (credit_records, credit_bytes)
        self.program = program
        for partition in range(len(self._partitions)):
            self.again(partition, 0)
        return self

    def __iter__(self) -> Iterator[MemoryDelivery]:
        while (delivery := self._queue.get()) is not None:
            yield delivery

    def close(self) -> None:
        self._queue.put(None)

    def put(self, delivery: MemoryDelivery) -> None:
        """Hand out a delivery of the test's own."""
        self._queue.put(delivery)

    def settled(self, partition: int, first: int, last: int) -> None:
        with self._lock:
            self.settled_offsets[partition].update(range(first, last + 1))
            self.some_settled.put(True)
            counts = zip(self.settled_offsets, self._partitions, strict=True)
            if all(len(settled) == len(kept) for settled, kept in counts):
                self.all_settled.put(True)

    def stop_partition(self, partition: int, offset: int) -> None:
        with self._lock:
            for delivery in self._handed_out:
                if delivery.partition == partition:
                    old = delivery.void_from
                    delivery.void_from = offset if old is None else min(old, offset)

    def again(self, partition: int, offset: int) -> None:
        with self._lock:
            self.stop_partition(partition, offset)
            left = [record for record in self._partitions[partition] if record.offset >= offset]
            for start in range(0, len(left), self._per_delivery):
                delivery = MemoryDelivery(left[start : start + self._per_delivery], partition=partition, source=self)
                self._handed_out.append(delivery)
                self._queue.put(delivery)
