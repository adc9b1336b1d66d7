"""Appends of one sink: pages that are admitted get offsets, and wait for their batch or go to memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from forebay.broker.core.dead_letters.letters import is_dead_letter_sink
from forebay.broker.core.errors import BrokerError
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.partition.pages import Entry, Incoming
from forebay.broker.core.writes import PutSlot
from forebay.broker.runtime.commit.committer import Committer
from forebay.broker.runtime.commit.durable import Durable
from forebay.broker.runtime.commit.group import Append, AppendQueue, Companion
from forebay.broker.runtime.instruments import Instruments
from forebay.broker.runtime.resources.quota import Quota
from forebay.broker.runtime.sink.admission import Admission
from forebay.broker.runtime.sink.memory_tier import MemoryTier
from forebay.broker.runtime.sink.repair import Subscriber
from forebay.broker.runtime.sink.state import Sink
from forebay.errors.reasons import Reason


class Appends:
    """Appends of one sink. Used on the loop."""

    def __init__(
        self,
        sink: Sink,
        subscribers: Mapping[str, Subscriber],
        tier: MemoryTier,
        admission: Admission,
        *,
        committer: Committer,
        quota: Quota,
        instruments: Instruments,
    ) -> None:
        self._sink = sink
        self._subscribers = subscribers
        self._tier = tier
        self._admission = admission
        self._committer = committer
        self._quota = quota
        self._instruments = instruments
        self._queues = [self._queue_of(log) for log in sink.logs]

    async def append(
        self,
        page: Incoming,
        slot_at: Callable[[int], PutSlot] | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> Append:
        """Admit a checked page and queue it. The result's ``done`` is set when it is durable.

        ``slot_at`` returns the writer's slot for the page, given the first offset. ``check`` raises if the append is
        obsolete after it had to wait.
        """
        self._refuse_dead_letters()
        async with self._sink.admission:
            await self._admission.admit([page])
            check()
            return self._queue(page, slot_at)

    async def append_with(self, page: Incoming, companion: Companion, check: Callable[[], None]) -> Append:
        """Admit a page of the broker and queue it with its companion writes, after a last ``check``."""
        async with self._sink.admission:
            await self._admission.admit([page])
            check()
            return self._queue(page, None, companion)

    async def append_all(self, pages: Sequence[Incoming]) -> list[Append]:
        """Admit checked pages together, all or none, and queue them in their order."""
        self._refuse_dead_letters()
        async with self._sink.admission:
            await self._admission.admit(pages)
            return [self._queue(page, None) for page in pages]

    def _refuse_dead_letters(self) -> None:
        if is_dead_letter_sink(self._sink.name):
            problem = f"{self._sink.name!r} holds dead letters: only the broker writes to it"
            raise BrokerError(Reason.INVALID_SINK_NAME, problem, field="sink")

    def _queue(
        self, page: Incoming, slot_at: Callable[[int], PutSlot] | None, companion: Companion | None = None
    ) -> Append:
        sink, log = self._sink, self._sink.logs[page.partition]
        # A page with companion writes is written in one batch with them, in every mode, and synced.
        to_memory = companion is None and self._tier.accepts(log, page.record_count)
        first = log.reserve(page.record_count, len(page.body))
        self._quota.add(len(page.body))
        append = Append(
            page=page,
            first=first,
            accepted_at_us=log.accept_time(sink.clock.wall_us()),
            age_us=sink.age.now_us(),
            slot=slot_at(first) if slot_at is not None else None,
            page_records=sink.settings.buffer_page_size,
            done=Durable(),
            companion=companion,
            fsync=sink.settings.fsync or companion is not None,
        )
        if to_memory:
            self.committed(page.partition, [self._tier.hold(log, append)])
            return append
        self._tier.sent_to_disk(log)
        self._committer.append(self._queues[page.partition], append)
        return append

    def require_sync(self) -> None:
        """Confirm what waits only when it survives a power loss, as its sink now promises.

        The batch that removes the reservations of the sink may be an earlier one than theirs.
        """
        for queue in self._queues:
            for append in queue.waiting:
                append.fsync = True

    def _queue_of(self, log: PartitionLog) -> AppendQueue:
        return AppendQueue(self._sink.id, log, self.committed, beside=lambda: self._tier.beside(log))

    def grow(self, logs: Sequence[PartitionLog]) -> None:
        """Add the queues of new partitions."""
        self._queues += [self._queue_of(log) for log in logs]

    def committed(self, partition: int, entries: list[Entry], *, beside: tuple[int, int] = (0, 0)) -> None:
        """Notify readers of pages that became records of a partition.

        ``beside``: records and bytes of a large commit that have no entry in memory.
        """
        sink = self._sink
        sink.appended.add(sum(entry.count for entry in entries) + beside[0], sink.now())
        self._instruments.ingested(sink.name, partition, entries, sink.age.now_us(), beside=beside)
        for subscriber in self._subscribers.values():
            subscriber.wake(partition, new_page=True)
        sink.changed.fire()
