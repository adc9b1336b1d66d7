"""A committer on its own, with one partition."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from forebay.broker.core.errors import StoreFenced
from forebay.broker.core.journal_outage import JournalOutage
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.commit.committer import Committer, Synced
from forebay.broker.runtime.commit.group import Append, AppendQueue
from forebay.broker.runtime.read.read_cache import ReadCache
from forebay.broker.storage.journal import Journal
from forebay.broker.storage.recovery import recover
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.pages.samples import page


class BenchJournal:
    """``ShardJournal`` with the outage and the room that a test sets."""

    def __init__(self) -> None:
        self.now: JournalOutage | None = None
        self.free_bytes: int | None = None

    def outage(self, reserve_bytes: int) -> JournalOutage | None:
        """See ``ShardJournal.outage``."""
        return self.now


class Bench:
    """A committer, one partition, and what happened."""

    def __init__(
        self, store: MemoryStore, clock: FakeClock, *, waiting_bytes_max: int, reserve: int, beside_bytes: int
    ) -> None:
        self.shard_journal: Final = BenchJournal()
        self.journal: Journal = recover(store).journal
        self.read_cache = ReadCache(1 << 20)
        self.fenced: list[StoreFenced] = []
        self.synced: list[Synced] = []
        self.on_synced: Callable[[Synced], None] = self.synced.append
        self.confirmed: list[int] = []
        self.order: list[int] = []
        self.log = PartitionLog(0)
        self.queue = AppendQueue(1, self.log, lambda _, entries: self.confirmed.extend(e.base for e in entries))
        self.committer = Committer(
            self.journal,
            clock,
            self.read_cache,
            start_count=1,
            waiting_bytes_max=waiting_bytes_max,
            disk_reserve_bytes=reserve,
            beside_bytes=beside_bytes,
            on_fenced=self.fenced.append,
            on_synced=self._on_synced,
            shard_journal=self.shard_journal,
        )

    def has_cut(self, end: int) -> bool:
        """Return whether all records below an offset are in a batch."""
        return self.log.decided.next_offset >= end

    def _on_synced(self, synced: Synced) -> None:
        self.on_synced(synced)

    def append(
        self, *found: bytes, page_records: int = 256, to: AppendQueue | None = None, fsync: bool = True
    ) -> Append:
        """Let values wait as one append."""
        to = to or self.queue
        asked = page(*found, partition=to.log.number)
        append = Append(
            page=asked,
            first=to.log.reserve(len(found), len(asked.body)),
            accepted_at_us=1,
            age_us=1,
            slot=None,
            page_records=page_records,
            done=asyncio.get_running_loop().create_future(),
            fsync=fsync,
        )
        append.done.add_done_callback(lambda _: self.order.append(append.first))
        self.committer.append(to, append)
        return append


@asynccontextmanager
async def bench(
    store: MemoryStore | None = None,
    *,
    waiting_bytes_max: int = 1 << 30,
    reserve: int = 0,
    beside_bytes: int = 1,
    clock: FakeClock | None = None,
) -> AsyncIterator[Bench]:
    """A committer that works."""
    one = Bench(
        store or MemoryStore(),
        clock or FakeClock(),
        waiting_bytes_max=waiting_bytes_max,
        reserve=reserve,
        beside_bytes=beside_bytes,
    )
    one.committer.start()
    try:
        yield one
    finally:
        await one.committer.close()
        one.journal.close()
