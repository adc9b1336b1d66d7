"""Store interface of the runtime. Calls block; each docstring names the calling thread.

Reads of the index raise ``IndexDamaged`` if a part of it is unreadable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from forebay.broker.core.epochs.values import EpochRecord
from forebay.broker.core.journal_outage import JournalOutage
from forebay.broker.core.partition.pages import Body, Entry, Gap
from forebay.broker.core.partition.repair import Survey
from forebay.broker.core.publish.writer import Slot
from forebay.broker.core.writes import Due, PageWrite, Write


class ShardJournal(Protocol):
    """Journal of a shard, as its owner sees it. Any thread.

    Each batch is appended to it, in another system, before it counts.
    """

    @property
    def free_bytes(self) -> int | None:
        """Free bytes of its device as of the last append, None if they are not known."""
        ...

    def outage(self, reserve_bytes: int) -> JournalOutage | None:
        """Return its outage as of now, None while it answers and has ``reserve_bytes`` of room."""
        ...


class OpenCommit(Protocol):
    """Commit that has begun."""

    def finish(self) -> None:
        """Return once it is durable. Commits are finished in the order of their begins. The commit thread."""
        ...


class Journal(Protocol):
    """Pages, entries and state, durable when ``commit`` has returned. All calls may raise ``StoreFenced``.

    Reads may raise ``ReadFailed``, which does not prove damage: nothing is dropped because of it.
    """

    def commit(self, pages: Sequence[PageWrite], writes: Sequence[Write], *, sync: bool = True) -> None:
        """Store pages and apply writes: all or nothing, durable on return. The commit thread, or the loop.

        Without ``sync`` a power loss may undo them, until a later commit with it has returned.
        """
        ...

    @property
    def commits_at_once(self) -> int:
        """Commits that may be open at once. With 1 each is durable before the next one begins, by ``commit``."""
        ...

    def begin(self, pages: Sequence[PageWrite], writes: Sequence[Write]) -> OpenCommit:
        """Begin a commit where several may be open: as ``commit``, without the wait. The append thread."""
        ...

    def is_ready(self) -> bool:
        """Return True if a small commit waits for nothing but the disk. The loop or commit thread."""
        ...

    def compact(self, dues: Sequence[Due]) -> None:
        """Release the space of reclaimed ranges: all bulk, or all small. The reclaim thread."""
        ...

    def bulk_of_sink(self, sink: int) -> list[Due]:
        """Return the bulk pages of a sink that are not remote, even orphaned ones, as runs of their numbers.

        The reclaim thread.
        """
        ...

    def read_pages(self, sink: int, partition: int, entries: Sequence[Entry]) -> list[Body | None]:
        """Bodies in order; None where one is missing or damaged. A read thread."""
        ...

    def prefetch(self, sink: int, partition: int, numbers: Sequence[int]) -> None:
        """Start read-ahead of bulk pages that will be read soon, without waiting. A read thread."""
        ...

    def is_remote(self, sink: int, partition: int, entries: Sequence[Entry]) -> bool:
        """Return whether the read of these pages waits for a transfer. The event loop."""
        ...

    def has_remote(self) -> bool:
        """Return whether bulk pages are remote: none is any more once this was False. The event loop."""
        ...

    def end_transfers(self) -> None:
        """Let reads fail that wait for a transfer, now and later. The event loop."""
        ...

    def entries(self, sink: int, partition: int, first: int, end: int, limit: int) -> list[Entry]:
        """Return up to ``limit`` entries with bases in ``[first, end)``, by offset. A read thread."""
        ...

    def entry_before(self, sink: int, partition: int, first: int, end: int) -> Entry | None:
        """Return the entry with the highest base in ``[first, end)``. A read thread."""
        ...

    def slots(self, sink: int, writer_id: str, epoch: int) -> dict[int, list[Slot]]:
        """Return the window of a writer's epoch, per partition. A read thread."""
        ...

    def epochs(self, sink: int, producer: str, first: int, limit: int) -> list[EpochRecord]:
        """Up to ``limit`` epochs of a producer from number ``first`` on. A read thread."""
        ...

    def survey(
        self, sink: int, partition: int, earliest: int, end: int, gaps: Sequence[Gap], known: Sequence[Entry]
    ) -> Survey:
        """Read the whole index of a partition, and find missing pages. A read thread; takes long."""
        ...

    def rewrite_index(self) -> list[tuple[bytes, bytes]]:
        """Rewrite the index without its unreadable parts; returns the lost ranges of keys. The commit thread."""
        ...

    def live_bytes(self) -> int:
        """Bytes on the device. A read thread."""
        ...

    def free_bytes(self) -> int:
        """Bytes that the device has left. Any thread; cheap."""
        ...

    def write_stall(self) -> int:
        """1 if the store slows writes, 2 if it stops them, or 0. Any thread; cheap."""
        ...

    def write_stall_s(self) -> float | None:
        """Seconds for which the store has held writes back, None if not known. Any thread; cheap."""
        ...

    def close(self) -> None:
        """Close the store, when all threads are done."""
        ...
