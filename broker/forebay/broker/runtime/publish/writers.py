"""Writers of one sink: their identities, epochs, and the windows for idempotent publishing.

An epoch is durable before the writer receives it. A page is judged, admitted and queued in one step per stream, so
pages of a writer never overtake each other; a duplicate of a page that waits for its sync joins it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from forebay.broker.core.backups.values import Restored
from forebay.broker.core.errors import Draining, InvalidPartition, WriterFenced
from forebay.broker.core.partition.pages import Incoming
from forebay.broker.core.publish.writer import Forgotten, Slot, WriterWindow
from forebay.broker.core.writes import DropWriter, PutSlot, PutWriter
from forebay.broker.runtime.commit.committer import Committer
from forebay.broker.runtime.publish.result import PublishResult, done_with, pass_on
from forebay.broker.runtime.read.pages import Pages
from forebay.broker.runtime.sink.buffer import Buffer

EPOCH_BITS: Final = 40
"""Bits below the start count in an epoch, so that none is reused, even of a dropped writer."""
WRITERS_MAX: Final = 10_000
"""Writers kept per sink; above it the one idle longest is dropped."""


@dataclass(slots=True)
class _Writer:
    epoch: int
    active: float
    windows: dict[int, WriterWindow] | None = None
    """None while no stream has needed the windows: they are read when one resumes."""
    waiting: dict[tuple[int, int], asyncio.Future[None]] = field(default_factory=dict)
    session: WriterSession | None = None


class WriterSession:
    """One publish stream."""

    def __init__(
        self, buffer: Buffer, writer_id: str, writer: _Writer, drop: Callable[[str, WriterSession], Awaitable[None]]
    ) -> None:
        """``drop`` removes the writer of a session."""
        self._buffer = buffer
        self._writer = writer
        self._drop = drop
        self.writer_id = writer_id
        self.epoch = writer.epoch
        self.fenced: WriterFenced | None = None
        """Set when another stream took over the writer."""
        self.on_fenced = asyncio.Event()

    def next_sequences(self) -> dict[int, int]:
        """Return the next expected sequence per partition in which this epoch has written."""
        windows = self._writer.windows or {}
        return {p: w.highest + 1 for p, w in windows.items() if w.highest is not None}

    def arrived(self, partition: int, sequence: int) -> None:
        """Note a page before it is checked: the first to arrive is the expected one, even if rejected."""
        windows = self._writer.windows
        if self.fenced is None and windows is not None and partition < len(self._buffer.logs):
            _window(windows, partition).arrived(sequence)

    async def publish(self, page: Incoming, sequence: int) -> asyncio.Future[PublishResult]:
        """Admit a checked page; the future is done when it is durable.

        Raises an error of ``core.errors`` if it is not admitted; ``WriterFenced`` ends the stream.
        """
        buffer = self._buffer
        if page.partition >= len(buffer.logs):
            raise InvalidPartition(page.partition, len(buffer.logs))
        self._check()
        writer = self._writer
        windows = writer.windows
        assert windows is not None, "a session has its windows"
        window = _window(windows, page.partition)
        verdict = window.judge(page.partition, sequence, page.crc32)
        loop = asyncio.get_running_loop()
        if isinstance(verdict, Forgotten):
            return done_with(loop, PublishResult(None, page.record_count, duplicate=True))
        if isinstance(verdict, Slot):
            return self._joined(page.partition, verdict)
        if buffer.state.draining:
            raise Draining

        def slot_at(first: int) -> PutSlot:
            slot = Slot(sequence, page.crc32, first, page.record_count)
            window.accept(slot)
            return PutSlot(buffer.record.id, self.writer_id, self.epoch, page.partition, slot)

        append = await buffer.append(page, slot_at, check=self._check)
        writer.waiting[page.partition, sequence] = append.done
        writer.active = buffer.state.now()
        result: asyncio.Future[PublishResult] = loop.create_future()

        def confirm(done: asyncio.Future[None]) -> None:
            failure = done.exception()
            if failure is None:  # else it stays, so that a duplicate fails as its original did
                writer.waiting.pop((page.partition, sequence), None)
                window.confirm(sequence)
            level = buffer.tier.level(page.partition, append.first, append.first + page.record_count)
            pass_on(result, failure, PublishResult(append.first, page.record_count, duplicate=False, durability=level))

        append.done.add_done_callback(confirm)
        return result

    def _joined(self, partition: int, slot: Slot) -> asyncio.Future[PublishResult]:
        """Answer a duplicate when its original is durable."""
        loop = asyncio.get_running_loop()
        original = self._writer.waiting.get((partition, slot.sequence))

        def stored() -> PublishResult:
            level = self._buffer.tier.level(partition, slot.first, slot.first + slot.count)
            return PublishResult(slot.first, slot.count, duplicate=True, durability=level)

        if original is None:
            return done_with(loop, stored())
        result: asyncio.Future[PublishResult] = loop.create_future()
        original.add_done_callback(lambda done: pass_on(result, done.exception(), stored()))
        return result

    def _check(self) -> None:
        if self.fenced is not None:
            raise self.fenced

    def fence(self, current: int | None) -> None:
        """Fence the stream: another stream has the writer."""
        self.fenced = WriterFenced(self.writer_id, self.epoch, current)
        self.on_fenced.set()

    def end(self) -> None:
        """End the stream; the writer may reconnect."""
        if self._writer.session is self:
            self._writer.session = None

    async def remove(self) -> None:
        """Remove a writer that announced that it will not reconnect."""
        await self._drop(self.writer_id, self)


def lost_epochs(restored: Restored | None) -> range:
    """Return the epochs that may have been issued after the backup that a store was restored from."""
    if restored is None:
        return range(0)
    return range(restored.first_start << EPOCH_BITS, (restored.last_start + 1) << EPOCH_BITS)


def _window(windows: dict[int, WriterWindow], partition: int) -> WriterWindow:
    """Return the window of a partition, a new one before its first page."""
    window = windows.get(partition)
    if window is None:
        window = windows[partition] = WriterWindow()
    return window


class Writers:
    """All writers of one sink."""

    def __init__(
        self,
        buffer: Buffer,
        epochs: dict[str, int],
        *,
        committer: Committer,
        pages: Pages,
        start_count: int,
        lost: range = range(0),
    ) -> None:
        """``lost`` are the epochs that may have been issued after the backup that the store was restored from."""
        self.buffer = buffer
        self._lost = lost
        buffer.tier.slot_is_current = self.remembers
        self._committer = committer
        self._pages = pages
        self._next_epoch = max(start_count << EPOCH_BITS, *epochs.values(), 0)
        self._writers = {name: _Writer(epoch, self.buffer.state.now()) for name, epoch in epochs.items()}

    def remembers(self, put: PutSlot) -> bool:
        """Return whether the window still has a page under its sequence."""
        writer = self._writers.get(put.writer_id)
        if writer is None or writer.epoch != put.epoch or writer.windows is None:
            return False
        window = writer.windows.get(put.partition)
        return window is not None and window.knows(put.slot)

    async def open(self, writer_id: str, epoch: int | None) -> WriterSession:
        """Open a stream: with a new epoch, durably issued, or with the epoch to resume.

        An epoch that was lost with what came after a backup is resumed with an empty window: none of its pages is
        stored, and the publisher sees that the broker is behind its receipts.

        Raises:
            WriterFenced: the epoch is not the writer's current one, or the writer was dropped.
        """
        if self.buffer.state.draining:
            raise Draining
        writer = self._writers.get(writer_id)
        if epoch is not None:
            if epoch in self._lost and (writer is None or writer.epoch < epoch):
                writer = await self._put(writer_id, epoch)
            elif writer is None or writer.epoch != epoch:
                raise WriterFenced(writer_id, epoch, writer.epoch if writer else None)
            await self._load(writer_id, writer)
        else:
            self._next_epoch += 1
            writer = await self._put(writer_id, self._next_epoch)
        current = self._writers.get(writer_id)
        if current is not writer:  # another stream took a newer epoch, or the writer was dropped
            raise WriterFenced(writer_id, writer.epoch, current.epoch if current else None)
        if writer.session is not None:
            writer.session.fence(writer.epoch)
        session = WriterSession(self.buffer, writer_id, writer, self.remove)
        writer.session = session
        writer.active = self.buffer.state.now()
        return session

    async def _load(self, writer_id: str, writer: _Writer) -> None:
        if writer.windows is not None:
            return
        pages = self._pages
        slots = await pages.call(pages.journal.slots, self.buffer.record.id, writer_id, writer.epoch)
        if writer.windows is None:
            writer.windows = {partition: WriterWindow(tuple(found)) for partition, found in slots.items()}

    async def _put(self, writer_id: str, epoch: int) -> _Writer:
        """Give a writer another epoch, durably."""
        old = self._writers.pop(writer_id, None)
        if old is not None and old.session is not None:
            old.session.fence(epoch)
        self._evict_idlest(WRITERS_MAX - 1)
        writer = self._writers[writer_id] = _Writer(epoch, self.buffer.state.now())
        await self._committer.write([PutWriter(self.buffer.record.id, writer_id, epoch)])
        writer.windows = {}
        return writer

    def _evict_idlest(self, left: int) -> None:
        while len(self._writers) > left:
            idle = [(writer.active, name) for name, writer in self._writers.items() if writer.session is None]
            if not idle:
                return
            self._drop(min(idle)[1])

    def sweep(self) -> None:
        """Drop writers idle for longer than `writer_ttl`, and unused windows."""
        oldest = self.buffer.state.now() - self.buffer.settings.writer_ttl_us / 1_000_000
        for name, writer in list(self._writers.items()):
            if writer.session is None and not writer.waiting:
                if not self.buffer.tier.active:  # else it may know of pages that only memory holds
                    writer.windows = None
                if writer.active < oldest:
                    self._drop(name)

    def _drop(self, writer_id: str) -> asyncio.Future[None]:
        del self._writers[writer_id]
        return self._committer.write([DropWriter(self.buffer.record.id, writer_id)])

    async def remove(self, writer_id: str, session: WriterSession) -> None:
        """Drop a writer whose stream is ``session``."""
        writer = self._writers.get(writer_id)
        if writer is not None and writer.session is session:
            if writer.waiting:
                await asyncio.wait(list(writer.waiting.values()))  # must not cancel them, whatever happens here
            if self._writers.get(writer_id) is writer:
                await self._drop(writer_id)
