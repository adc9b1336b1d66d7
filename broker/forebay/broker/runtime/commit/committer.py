"""Group commit: the single path of all batches to the store.

Everything that waits when the commit thread is free becomes one batch, and one sync makes all of it durable. Nothing is
confirmed before that sync has returned. A lone small group is committed on the loop, see ``lone``. When a write fails
the committer is fenced: all pending and all later writes get ``StoreFenced``, and nothing is retried.

Where the store has a window, as that of a shard, a large batch begins while others are open: the journal is far away,
and has room for more. Batches are confirmed in their order all the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from forebay.broker.core.errors import (
    CommitsBehind,
    DiskFull,
    JournalAway,
    JournalFull,
    ReadFailed,
    StoreFenced,
    TooManyWaiting,
)
from forebay.broker.core.journal_outage import JournalOutage
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.writes import NUMBER_BITS, PageWrite, Write
from forebay.broker.runtime.clock import Clock
from forebay.broker.runtime.commit.batch import Batch, fail
from forebay.broker.runtime.commit.durable import Durable
from forebay.broker.runtime.commit.group import BULK_BYTES, Append, Group, Queue, cut
from forebay.broker.runtime.commit.lone import LoneGroups, is_lone
from forebay.broker.runtime.commit.pulse import Pulse
from forebay.broker.runtime.commit.store import Journal, OpenCommit, ShardJournal
from forebay.broker.runtime.read.read_cache import ReadCache

_T = TypeVar("_T")
_log: Final = logging.getLogger(__name__)
GROW_BYTES: Final = 16 << 20
"""Size up to which a group grows under load ..."""
GROW_S: Final = 0.015
"""... but not longer than this ..."""
GROW_BESIDE_S: Final = 0.05
"""... or than this while one before it is open: it cannot be confirmed before that one."""
GATHER_S: Final = 0.004
"""Minimum interval between commits of writes without pages, mostly acks, so that they share syncs."""
CHECK_S: Final = 0.01
"""Interval between reads of the free bytes beside commits on the loop; their bytes are subtracted."""
RECENT: Final = 512
"""Batches whose durations are kept."""
UNSYNCED_S: Final = 0.1
"""Longest time until a sync covers the writes that were made without one."""


@dataclass(frozen=True, slots=True)
class Synced:
    """Figures of one commit, for telemetry."""

    seconds: float
    pages: int
    size: int
    writes: int


class Committer:
    """Owner of the commit thread. All methods are called on the loop."""

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        read_cache: ReadCache,
        *,
        start_count: int,
        waiting_bytes_max: int,
        disk_reserve_bytes: int,
        beside_bytes: int = BULK_BYTES,
        on_fenced: Callable[[StoreFenced], None],
        on_synced: Callable[[Synced], None] = lambda _: None,
        shard_journal: ShardJournal | None = None,
    ) -> None:
        """``beside_bytes`` wait when a batch begins while others are open, where the store has a window."""
        self._journal = journal
        self._clock = clock
        self._read_cache = read_cache
        self._number = start_count << NUMBER_BITS
        self._waiting_bytes_max = waiting_bytes_max
        self._disk_reserve_bytes = disk_reserve_bytes
        self._free_bytes = 0
        self._room_unknown = False
        self.check_disk()
        self._committed_at = clock.monotonic()
        self._on_fenced = on_fenced
        self._on_synced = on_synced
        self._shard_journal = shard_journal
        self._queues: dict[int, Queue] = {}
        """Queues with pending appends, by identity."""
        self._writes: list[tuple[Sequence[Write], asyncio.Future[None]]] = []
        self._pages: list[PageWrite] = []
        """Pages that are written with ``_writes``."""
        self._sync_wanted = False
        """True if one of ``_writes`` must be durable when it is confirmed."""
        self._unsynced: dict[int, PartitionLog] = {}
        """Partitions, by identity, with confirmed pages that no sync has covered."""
        self._sync_due = 0.0
        self._work = asyncio.Event()
        self._appended = asyncio.Event()
        """Set when a page is queued."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="forebay-commit")
        self._begins = ThreadPoolExecutor(1, thread_name_prefix="forebay-append")
        """Thread that begins the commits of a store with a window."""
        self._begun: Future[tuple[int, OpenCommit]] | None = None
        """Begin of the last one."""
        self._open_max = journal.commits_at_once
        self._beside_bytes = beside_bytes
        self._calls = 0
        """Functions that run in the commit thread, or wait for it."""
        self._lone = LoneGroups()
        self._tasks: list[asyncio.Task[None]] = []
        self._open: deque[Batch] = deque()
        """Batches that are not confirmed, oldest first."""
        self._finishes: asyncio.Queue[asyncio.Future[int]] = asyncio.Queue()
        """The ends of their commits, where several may be open."""
        self._changed = asyncio.Event()
        """Set when another batch may begin beside open ones."""
        self.waiting_bytes = 0
        """Bytes of bodies that wait for their sync."""
        self._queued_bytes = 0
        """Those of them that are in no batch yet."""
        self.committed = Pulse()
        """Fires after every batch, at the end of every commit of an epoch, and when the store is fenced."""
        self.groups = 0
        """Batches committed."""
        self.recent_s: deque[float] = deque(maxlen=RECENT)
        """Durations of the last batches, in seconds, from the first write to the sync."""
        self.fenced: StoreFenced | None = None

    def start(self) -> None:
        """Begin to commit."""
        for name, work in (("forebay-committer", self._run()), ("forebay-confirmer", self._confirm_in_order())):
            task = asyncio.get_running_loop().create_task(work, name=name)
            task.add_done_callback(self._stopped)
            self._tasks.append(task)

    def _stopped(self, task: asyncio.Task[None]) -> None:
        """Fence the store after an error of the loop, so that no caller waits forever."""
        if not task.cancelled() and (error := task.exception()) is not None and self.fenced is None:
            _log.critical("committer ended", exc_info=error)
            self._fence(StoreFenced(f"the committer ended: {error}"))

    async def close(self) -> None:
        """Commit pending writes, then end the thread."""
        await self.drained()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._unsynced and self.fenced is None:
            self._open.clear()
            self._open.append(Batch(Group([], [], [], 0), [], [], True, self._clock.monotonic()))
            await self._commit(self._open[0])
        self._begins.shutdown()
        self._thread.shutdown()

    async def drained(self) -> None:
        """Return when nothing is pending or the store is fenced."""
        await self._idle.wait()

    # -- input

    def admit(self, size: int) -> None:
        """Raise unless there is room for ``size`` more bytes."""
        if self.fenced is not None:
            raise self.fenced
        if self.waiting_bytes and self.waiting_bytes + size > self._waiting_bytes_max:
            raise self._behind()
        if self._free_bytes - self.waiting_bytes - size < self._disk_reserve_bytes:
            raise DiskFull(self._free_bytes, self._disk_reserve_bytes)
        free = self._shard_journal.free_bytes if self._shard_journal is not None else None
        if free is not None and free - self.waiting_bytes - size < self._disk_reserve_bytes:
            raise JournalFull(f"{free} bytes are free, the reserve is {self._disk_reserve_bytes}")

    def outage(self) -> JournalOutage | None:
        """Return the outage of the journal of a shard; None while it answers, and without one."""
        return self._shard_journal.outage(self._disk_reserve_bytes) if self._shard_journal is not None else None

    def _behind(self) -> CommitsBehind | JournalFull:
        outage, waiting, bound = self.outage(), self.waiting_bytes, self._waiting_bytes_max
        if outage is None:
            return TooManyWaiting(waiting, bound)
        if outage.is_full:
            return JournalFull(f"{waiting} bytes wait for it, the bound is {bound}")
        return JournalAway(waiting, bound)

    @property
    def free_bytes(self) -> int:
        """Free bytes of the device, as last reported."""
        return self._free_bytes

    def check_disk(self) -> None:
        """Read the free bytes of the device: after batches, and once a second.

        After batches on the loop it is called every `CHECK_S` only.
        After a failure the last known number is kept.
        """
        self._checked_at = self._clock.monotonic()
        try:
            self._free_bytes = self._journal.free_bytes()
        except ReadFailed as failure:
            if not self._room_unknown:
                _log.error("free space is not known bytes_before=%d cause=%s", self._free_bytes, failure)
            self._room_unknown = True
        else:
            self._room_unknown = False

    def append(self, queue: Queue, append: Append) -> None:
        """Queue a page; ``append.done`` is set when it is durable."""
        if self.fenced is not None:
            append.done.set_exception(self.fenced)
            return
        self._queues[id(queue)] = queue
        queue.waiting.append(append)
        size = len(append.page.body)
        queue.size += size
        self.waiting_bytes += size
        self._queued_bytes += size
        self._appended.set()
        self._changed.set()
        self._wake()

    def write(self, writes: Sequence[Write], pages: Sequence[PageWrite] = (), *, sync: bool = True) -> Durable:
        """Queue writes, and the pages that they name, for the next batch; the future is done when durable.

        The pages have their numbers already, so they cannot be bulk: the numbers of a file rise. Without ``sync`` the
        future is done when they are written: they become durable with any later synced batch.
        """
        done = Durable()
        if self.fenced is not None:
            done.set_exception(self.fenced)
            done.exception()
            return done
        self._writes.append((writes, done))
        self._pages += pages
        self._sync_wanted |= sync
        self._wake()
        return done

    async def call(self, function: Callable[[], _T]) -> _T:
        """Run a function in the commit thread, between two batches: while none is open."""
        loop = asyncio.get_running_loop()
        self._calls += 1
        running: Future[_T] | None = None
        try:
            while self._open_max > 1 and self._open and self.fenced is None:
                await self.committed.next().wait()
            running = self._thread.submit(function)
        finally:
            if running is None:
                self._called()
        running.add_done_callback(lambda _: loop.call_soon_threadsafe(self._called))
        return await asyncio.wrap_future(running)

    def _called(self) -> None:
        """Note the end of a function, whose caller may be gone."""
        self._calls -= 1
        self._changed.set()

    def _wake(self) -> None:
        self._idle.clear()
        self._work.set()

    # -- the loop

    async def _run(self) -> None:
        last_size = 0
        after_bulk = False
        while True:
            await self._wait_for_work()
            if last_size >= BULK_BYTES:
                await self._grow()
            await self._wait_for_turn()
            await self._gather()
            await self._wait_for_turn()
            if self.fenced is not None:
                return
            batch = self._cut(after_bulk=after_bulk)
            last_size, after_bulk = batch.group.size, batch.group.is_bulk
            if self._open_max > 1:
                self._begin(batch)
                continue
            await self._commit(batch)
            await self._let_others_run()

    async def _let_others_run(self) -> None:
        """Let those run whose batch was confirmed, before nothing counts as pending.

        A commit on the loop has let nothing else run.
        """
        await asyncio.sleep(0)
        if not (self._open or self._work.is_set()):
            self._idle.set()

    def _cut(self, *, after_bulk: bool) -> Batch:
        """Take what waits into a batch."""
        group = cut(list(self._queues.values()), self.next_number, after_bulk=after_bulk and not self._open)
        self._queued_bytes -= group.size
        controls, self._writes = self._writes, []
        pages, self._pages = self._pages, []
        sync, self._sync_wanted = self._sync_wanted or not (controls or group.shares), False
        served = {id(share.queue) for share in group.shares}
        waiting = [(key, queue) for key, queue in self._queues.items() if queue.waiting]
        self._queues = dict(sorted(waiting, key=lambda item: id(item[1]) in served))  # left-out queues are first
        if not self._queues:
            self._work.clear()
        began = self._clock.monotonic()
        is_due = bool(self._unsynced) and began >= self._sync_due
        # A commit of a store with a window is durable in any case.
        sync = sync or group.fsync or is_due or self._open_max > 1
        batch = Batch(group, controls, [*pages, *group.pages], sync, began)
        self._open.append(batch)
        return batch

    async def _wait_for_turn(self) -> None:
        """Return when another batch may begin: at once, unless the store has a window."""
        while self.fenced is None and not self._may_begin():
            self._changed.clear()
            await self._changed.wait()

    def _may_begin(self) -> bool:
        if self._open_max == 1 or not (self._open or self._calls):
            return True
        return not self._calls and len(self._open) < self._open_max and self._queued_bytes >= self._beside_bytes

    async def _wait_for_work(self) -> None:
        """Return when a write is pending, or a sync is due."""
        if not self._unsynced:
            await self._work.wait()
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(UNSYNCED_S):
                await self._work.wait()

    async def _grow(self) -> None:
        """Let a group grow while the load is high; a lone small publish never waits."""
        began = self._clock.monotonic()
        while GROW_BYTES > self._queued_bytes > 0:
            if self._clock.monotonic() - began >= (GROW_BESIDE_S if self._open else GROW_S):
                return
            before = self._queued_bytes
            await asyncio.sleep(GROW_S / 5)
            if self._queued_bytes == before:
                return

    async def _gather(self) -> None:
        """Delay writes without pages after a recent commit, so that they share it; a page ends the delay."""
        left = self._committed_at + GATHER_S - self._clock.monotonic()
        if left <= 0 or self._queued_bytes or not self._sync_wanted:
            return
        self._appended.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(left):
                await self._appended.wait()

    async def _commit(self, batch: Batch) -> None:
        """Commit a batch alone."""
        try:
            commit = partial(_commit_batch, self._journal, self._clock, batch)
            lone = len(batch.pages) <= 1 and is_lone(batch.group, [writes for writes, _ in batch.controls])
            on_loop = lone and batch.group.shares and self._lone.lasts and not self._calls and self._journal.is_ready()
            if on_loop:
                written, seconds = commit()
            else:
                written, seconds = await asyncio.get_running_loop().run_in_executor(self._thread, commit)
        except StoreFenced as failure:
            self._fence(failure)
            return
        self._lone.note(is_lone=lone, seconds=seconds)
        self._confirm(written, checks_disk=not on_loop or self._clock.monotonic() - self._checked_at >= CHECK_S)

    def _begin(self, batch: Batch) -> None:
        """Begin to commit a batch, which may be beside open ones."""
        begun = self._begun = self._begins.submit(_begin_batch, self._journal, batch, self._begun)
        finished = self._thread.submit(_finish_batch, begun)
        end = asyncio.wrap_future(finished)
        end.add_done_callback(lambda done: done.cancelled() or done.exception())  # after a fence no task awaits it
        self._finishes.put_nowait(end)

    async def _confirm_in_order(self) -> None:
        """Confirm the batches that were begun, until one fails."""
        while True:
            finished = await self._finishes.get()
            try:
                written = await finished
            except StoreFenced as failure:
                self._fence(failure)
                return
            if self.fenced is not None:
                return
            self._confirm(written, checks_disk=True)
            await self._let_others_run()

    def _confirm(self, written: int, *, checks_disk: bool) -> None:
        """Confirm the oldest open batch, which is durable and has so many writes."""
        batch = self._open[0]  # it stays there until all of it is confirmed: an error in between fails what waits
        group = batch.group
        self.groups += 1
        now = self._committed_at = self._clock.monotonic()
        if checks_disk:
            self.check_disk()
        else:
            self._free_bytes -= group.size
        self.recent_s.append(now - batch.began)
        self._on_synced(Synced(now - batch.began, len(group.pages), group.size, written))
        self._read_cache.add(group.pages)
        logs: list[PartitionLog] = []
        for share in group.shares:
            self.waiting_bytes -= share.size
            log = share.queue.confirm(share)
            if log is not None:
                logs.append(log)
            for append in share.appends:
                if append.companion is not None:
                    append.companion.committed()
        self._note_synced(logs, batch.began, sync=batch.sync)
        batch.confirm_controls()
        batch.confirm_appends()
        self._open.popleft()
        self._changed.set()
        self.committed.fire()

    def _note_synced(self, logs: list[PartitionLog], began: float, *, sync: bool) -> None:
        """Track the partitions of a written batch: a sync covers all earlier unsynced writes too."""
        if not self._unsynced:
            self._sync_due = began + UNSYNCED_S
        self._unsynced |= {id(log): log for log in logs}
        if sync:
            for log in self._unsynced.values():
                log.synced = log.tail.next_offset
            self._unsynced = {}

    def _fence(self, failure: StoreFenced) -> None:
        """Fail everything that is pending, and end the work."""
        _log.critical("store was fenced cause=%s", failure)
        self.fenced = failure
        waiting = [done for batch in self._open for done in batch.waiters()]
        waiting += [append.done for queue in self._queues.values() for append in queue.waiting]
        waiting += [done for _, done in self._writes]
        self._open.clear()
        self._queues.clear()
        self._writes.clear()
        self._pages.clear()
        fail(waiting, failure)
        self._work.clear()
        self._idle.set()
        self._changed.set()
        self.committed.fire()
        self._on_fenced(failure)

    def next_number(self) -> int:
        """Return a new page number; none is reused."""
        self._number += 1
        return self._number


def _commit_batch(journal: Journal, clock: Clock, batch: Batch) -> tuple[int, float]:
    """Commit, usually in the commit thread; returns the number of writes and the seconds."""
    began = clock.monotonic()
    writes = batch.writes()
    journal.commit(batch.pages, writes, sync=batch.sync)
    return len(writes), clock.monotonic() - began


def _begin_batch(
    journal: Journal, batch: Batch, before: Future[tuple[int, OpenCommit]] | None
) -> tuple[int, OpenCommit]:
    """Begin, in the append thread; returns the number of writes and what is open.

    A batch after one that could not begin must not count: its pages follow those of the other one.
    """
    if before is not None and before.exception() is not None:
        raise StoreFenced("the batch before could not begin") from before.exception()
    writes = batch.writes()
    return len(writes), journal.begin(batch.pages, writes)


def _finish_batch(begun: Future[tuple[int, OpenCommit]]) -> int:
    """Finish, in the commit thread; returns the number of writes."""
    written, opened = begun.result()
    opened.finish()
    return written
