"""Named consumer of a sink that resumes where it stopped.

    with client.consumer("orders", "billing", store="file:///var/lib/billing") as consumer:
        for batch in consumer:
            for record in batch:
                ...

It reads by replay, so it changes nothing in the sink; its positions are in a store of the program's choice. One
consumer of a name owns a partition at a time: a second one takes over, and the first ends with ``PositionFenced``.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from forebay.client.admin.sinks import ONCE, Sinks, stats_message
from forebay.client.errors import Closed, ForebayError
from forebay.client.positions.completion import Completion
from forebay.client.positions.position import WRITE_MARK, PositionKey
from forebay.client.positions.readers import PartitionReaders, Read
from forebay.client.positions.restores import last_restores
from forebay.client.positions.saver import PositionSaver, SaveStatistics
from forebay.client.positions.settings import ConsumerSettings, Guarantee
from forebay.client.positions.store import PositionStore
from forebay.client.positions.stores.broker import BrokerPositions
from forebay.client.positions.subscription import ReadSubscription
from forebay.client.positions.takeover import Taken, Takeover
from forebay.client.positions.telemetry import SaveTelemetry
from forebay.client.replay.columns import records_and_gaps
from forebay.client.replay.iterator import ClosableIterator
from forebay.client.replay.pages import PageReplay, ReplayOptions
from forebay.client.settings import invalid_setting
from forebay.client.transport.channel import Channels
from forebay.client.transport.operations import blocked
from forebay.client.transport.service import Service
from forebay.client.values.convert import value
from forebay.client.values.records import DropReason, Gap, ReplayedRecord, StoredPage
from forebay.client.values.sinks import SinkStats
from forebay.errors.reasons import Reason
from forebay.v1.sink_service_pb2_grpc import SinkServiceStub

_log: Final = logging.getLogger(__name__)

READER_ID_MAX: Final = 64
"""Characters of the name that the statistics of the sink show."""


class Batch:
    """Consecutive records of one partition, or a gap. Not thread-safe, except ``finish``."""

    def __init__(self, partition: int, found: StoredPage | Gap, finish: Callable[[int, int, int], None]) -> None:
        self.partition = partition
        self._found = found
        self._finish = finish

    @property
    def page(self) -> StoredPage | None:
        """Stored page of the records, for bulk readers; None for a gap."""
        return self._found if isinstance(self._found, StoredPage) else None

    @property
    def gap(self) -> Gap | None:
        """Missing offsets; such a batch has no records."""
        return self._found if isinstance(self._found, Gap) else None

    @property
    def first_offset(self) -> int:
        """First offset."""
        return self._found.first_offset

    @property
    def last_offset(self) -> int:
        """Last offset."""
        return self._found.last_offset

    def __len__(self) -> int:
        """Return the number of offsets."""
        return len(self._found)

    def __iter__(self) -> Iterator[ReplayedRecord | Gap]:
        """Yield the records; a record that cannot be decoded is a gap with the reason ``UNREADABLE``."""
        if isinstance(self._found, Gap):
            return iter((self._found,))
        return records_and_gaps(self._found)

    def __repr__(self) -> str:
        """Return partition and offsets, never contents."""
        kind = "Gap" if self.gap is not None else "Batch"
        return f"<{kind} partition={self.partition} offsets={self.first_offset}-{self.last_offset}>"

    def finish(self, first: int | None = None, last: int | None = None) -> None:
        """Note records as finished, all by default: they are not handed out again after a restart.

        May be called from any thread, in any order. Raises ``InvalidArgument`` for other records.
        """
        first = self.first_offset if first is None else first
        self._finish(self.partition, first, self.last_offset if last is None else last)


@dataclass(frozen=True, slots=True)
class ConsumerStatistics:
    """State of a consumer."""

    positions: dict[int, int]
    """Lowest record that is not finished, by partition."""

    saved: dict[int, int]
    """Saved position, by partition."""

    unfinished: int
    """Records that were handed out and are not finished."""

    saves: SaveStatistics


class CheckpointedConsumer(ClosableIterator[Batch]):
    """Iterator of batches. Created by ``Client.consumer``. Iterated by one thread."""

    def __init__(
        self,
        channels: Channels,
        sink: str,
        name: str,
        *,
        store: PositionStore,
        settings: ConsumerSettings,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        on_close: Callable[[CheckpointedConsumer], None] = lambda consumer: None,
    ) -> None:
        self.sink: Final = sink
        self.name: Final = name
        self._channels = channels
        self._sinks = Sinks(channels)
        self._store = store
        self._on_close = on_close
        self._settings = settings
        self._clock = clock
        self._wall = wall
        self._pid = os.getpid()
        if PositionKey(settings.namespace, name, sink, 0).is_write:  # which checks the names too
            raise invalid_setting("name", repr(name), f"a name that does not end in {WRITE_MARK!r}")
        self._saver = PositionSaver(
            store,
            owner=uuid.uuid4().hex,
            schedule=settings.schedule,
            telemetry=SaveTelemetry(sink, name),
            on_saved=self._settle,
            clock=clock,
            wall=wall,
        )
        self._takeover = Takeover(channels, self._sinks, sink, name, self._saver, settings)
        self._readers = PartitionReaders(settings.buffer_bytes)
        self._lock = threading.Lock()
        """Protects the completions."""
        self._completions: dict[int, Completion] = {}
        self._misfits: dict[int, Gap] = {}
        """Gap between saved position and start, by partition that is being opened."""
        self._skipped: list[Gap] = []
        """Those of partitions that are open, to be handed out first."""
        self._incarnation = ""
        self._restores: dict[int, Gap] = {}
        """Gap of the last restore of the broker by partition, if it has the saved positions too."""
        self._subscription: ReadSubscription | None = None
        self._refreshed_at: float | None = None
        """Time of the last look for partitions; None until all of the first one are open."""
        self._is_look_failing = False
        """The last look for partitions that were added failed."""
        self._current: Batch | None = None
        self._unsaved: Batch | None = None
        """Batch that waits for the save before it is handed out."""
        self._closed = False

    def __next__(self) -> Batch:
        """Return the next batch, waiting for it; stops when closed, and without ``follow`` at the end.

        Raises ``PositionFenced``, ``PositionUnusable``, ``PositionStoreUnavailable``, and the errors of a replay.
        """
        batch = self.take()
        if batch is None:
            raise StopIteration
        return batch

    def take(self, timeout_s: float | None = None) -> Batch | None:
        """Return the next batch; None after ``timeout_s``, when closed, and without ``follow`` at the end.

        With ``at_most_once`` the time limit includes the save before the batch: one whose save is not complete is
        returned by a later call. Raises ``Closed`` if the consumer is closed during that save, and as ``__next__``.
        """
        if self._pid != os.getpid():
            raise Closed(
                "this consumer was opened before fork: open a new one in this process", reason=Reason.USED_AFTER_FORK
            )
        ends_at = None if timeout_s is None else self._clock() + timeout_s
        try:
            batch = self._next_batch(ends_at)
        except Closed:
            if self._closed:
                return None
            raise
        return None if batch is None else self._hand_out(batch, ends_at)

    @property
    def statistics(self) -> ConsumerStatistics:
        """Positions and saves so far."""
        with self._lock:
            positions = {partition: one.position for partition, one in self._completions.items()}
            unfinished = sum(one.unfinished for one in self._completions.values())
        return ConsumerStatistics(positions, dict(self._saver.saved()), unfinished, self._saver.statistics)

    def save(self) -> None:
        """Save all positions now; returns when they are durable.

        Raises ``PositionFenced``, ``PositionStoreUnavailable``, and ``Closed`` if another thread closes the consumer.
        """
        self._saver.save(self._settings.save_failures_max)

    def close(self) -> None:
        """Save the positions of all finished records, and end. Idempotent; may be called from any thread.

        With ``at_most_once`` all of them are saved already; a batch that still waits for its save is not handed out.
        If its save does not complete either, the next consumer reads it.

        Raises ``PositionFenced``, and ``PositionStoreUnavailable`` after ``stop_timeout_s``. The consumer ends all the
        same, and other threads that wait for a save get ``Closed``.
        """
        if self._closed:
            return
        self._closed = True
        try:
            self._readers.close()
            if self._pid == os.getpid():
                self._saver.close(self._settings.stop_timeout_s, discard=self._saves_first)
        finally:
            self._store.close()
            self._on_close(self)

    def __exit__(self, *raised: object) -> None:
        """Close the consumer; after an exception, failures to save are not raised over it."""
        with suppress(ForebayError) if raised[0] is not None else nullcontext():
            self.close()

    # -- partitions

    def _wait_s(self, ends_at: float | None) -> float | None:
        """Return the time until the next look for partitions, or until the time limit; None without either."""
        now = self._clock()
        if not self._settings.follow:
            return None if ends_at is None else max(0.0, ends_at - now)
        refresh_s = self._settings.refresh_s - (now - (self._refreshed_at or now))
        return max(0.0, refresh_s if ends_at is None else min(refresh_s, ends_at - now))

    def _refresh(self) -> None:
        """Start to read the partitions of the sink; from time to time, those that were added."""
        now = self._clock()
        if self._refreshed_at is None:
            self._open(self._sinks.stats(self.sink), is_first=True)
        elif self._settings.follow and now - self._refreshed_at >= self._settings.refresh_s:
            self._look_again()
        else:
            return
        self._refreshed_at = now  # after the last partition: if one fails, the next call opens the others

    def _look_again(self) -> None:
        """Read partitions that were added; a failure that may pass is logged, and left to the next look.

        It must not end the consumer: the open partitions survive an outage, and most looks find nothing. It is not
        retried either, because ``take`` has a time limit.
        """
        try:
            found = blocked(stats_message(Service(self._channels, SinkServiceStub), self.sink, policy=ONCE))
            self._open(value(SinkStats, found), is_first=False)
        except ForebayError as error:
            if not error.retryable:
                raise
            if not self._is_look_failing:
                _log.warning(
                    "added partitions were not looked for sink=%s consumer=%s reason=%s retry_in_s=%g: %s",
                    *(self.sink, self.name, error.reason, self._settings.refresh_s, error),
                )
            self._is_look_failing = True
        else:
            self._is_look_failing = False

    def _open(self, found: SinkStats, *, is_first: bool) -> None:
        """Take over and read the partitions that are not open."""
        self._incarnation = self._incarnation or found.incarnation
        if is_first and self._settings.checkpointing and isinstance(self._store, BrokerPositions):
            self._restores = last_restores(self._sinks, self.sink)
        if self._settings.subscription and self._subscription is None:
            self._subscription = ReadSubscription.open(
                self._channels, self.sink, self._settings.subscription, self._incarnation
            )
        with self._lock:
            opened = set(self._completions)
        for one in self._takeover.decide(found, self._incarnation, opened, self._subscription, self._restores):
            self._note_misfit(one)  # before the write: if its answer is lost, the next decision finds a usable position
            taken = self._takeover.take(one)
            if taken is not one:
                self._misfits.pop(taken.bounds.partition, None)
                self._note_misfit(taken)
            self._begin(taken)

    def _settle(self, partition: int, offset: int) -> None:
        """Settle what is below a saved position."""
        if self._subscription is not None and self._settings.settle:
            self._subscription.settle(partition, offset)

    def _note_misfit(self, one: Taken) -> None:
        if one.start.skipped is not None:
            partition = one.bounds.partition
            self._misfits[partition] = Gap(partition, *one.start.skipped, DropReason.TRIMMED, self._wall())

    def _begin(self, taken: Taken) -> None:
        """Settle what is below the start of a partition that was taken over, and begin to read."""
        bounds, first = taken.bounds, taken.first
        if self._settings.checkpointing:
            self._settle(bounds.partition, first)
        gap = self._misfits.pop(bounds.partition, None)
        with self._lock:
            self._completions[bounds.partition] = Completion(first if gap is None else gap.first_offset)
        if gap is not None:
            self._skipped.append(gap)
        options: ReplayOptions = {
            "start": first, "follow": self._settings.follow, "on_gap": "yield", "incarnation": bounds.incarnation,
            "reader_id": self.name[:READER_ID_MAX],
        }  # fmt: skip
        if not self._settings.follow:
            options["end"] = max(first, bounds.end)
        self._readers.add(
            bounds.partition,
            lambda: PageReplay(self._channels, self.sink, partition=bounds.partition, **options),
        )

    # -- batches

    def _next_batch(self, ends_at: float | None) -> Batch | None:
        """Finish the current batch, and return the next one, which is not handed out yet.

        Returns None as ``take``. Raises ``Closed`` if the consumer was closed before the end of the current batch.
        """
        if self._current is not None and self._settings.auto_finish:
            self._current.finish()
        self._current = None
        while not self._closed:
            if self._unsaved is not None:
                return self._unsaved
            self._refresh()
            self._saver.check(self._settings.save_failures_max)
            if self._skipped:
                return self._batch(Read(self._skipped[0].partition, self._skipped.pop(0)))
            read = self._readers.take(self._wait_s(ends_at))
            if read is not None:
                return self._batch(read)
            if self._readers.ended or (ends_at is not None and self._clock() >= ends_at):
                return None
        return None

    @property
    def _saves_first(self) -> bool:
        return self._settings.guarantee == Guarantee.AT_MOST_ONCE and self._settings.checkpointing

    def _batch(self, read: Read) -> Batch:
        """Return what was read as a batch, finished if it needs no processing or if it is saved first."""
        batch = Batch(read.partition, read.found, self._finish)
        with self._lock:
            self._completions[read.partition].hand_out(batch.first_offset, batch.last_offset)
        if self._settings.guarantee == Guarantee.AT_MOST_ONCE or batch.gap is not None:
            batch.finish()
        return batch

    def _hand_out(self, batch: Batch, ends_at: float | None) -> Batch | None:
        """Return a batch, after its save with ``at_most_once``; None and keep it after the time limit."""
        if self._saves_first:
            self._unsaved = batch
            left = None if ends_at is None else max(0.0, ends_at - self._clock())
            if not self._saver.try_save(self._settings.save_failures_max, left):
                return None
        self._unsaved = None
        self._current = batch
        return batch

    def _finish(self, partition: int, first: int, last: int) -> None:
        if self._closed:
            raise Closed("the consumer is closed: open a new one", reason=Reason.SUBSCRIBER_CLOSED)
        with self._lock:
            completion = self._completions[partition]
            moved = completion.finish(first, last)
            position = completion.position
        if moved and self._settings.checkpointing:
            self._saver.moved(partition, position)
