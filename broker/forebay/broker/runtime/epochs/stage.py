"""Stage of one attempt: its pages, its publish stream, and its way into a group."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from forebay.broker.core.epochs.values import StagedPage, StagedSummary, StageRecord, TokenPart
from forebay.broker.core.errors import (
    BrokerError,
    Draining,
    InvalidPartition,
    WriterFenced,
)
from forebay.broker.core.partition.pages import Body, Entry, Incoming
from forebay.broker.core.writes import PageWrite, PutStage, PutStaged
from forebay.broker.runtime.commit.group import Append, Group, Share
from forebay.broker.runtime.publish.result import PublishResult, done_with, pass_on
from forebay.broker.runtime.sink.state import Sink
from forebay.errors.reasons import Reason
from forebay.state.numbers import plural


@dataclass(slots=True, eq=False)
class Stage:
    """Pages of one attempt."""

    record: StageRecord
    active: float
    """Monotonic time of the last access."""

    opened: float
    """Monotonic time at which it was opened, or found at a start."""

    admitted: dict[int, int] = field(default_factory=dict)
    """Admitted pages by partition: the sequence of the next one."""

    pages: dict[int, list[StagedPage]] = field(default_factory=dict)
    """Pages with a number, by partition and in order."""

    durable: dict[int, int] = field(default_factory=dict)
    """Number of durable pages, by partition."""

    counts: dict[int, int] = field(default_factory=dict)
    """Records, by partition."""

    page_count: int = 0
    """Pages, in all partitions."""

    records: int = 0
    size: int = 0
    """Bytes of bodies."""

    written: bool = False
    """True if the stage is stored."""

    gone: bool = False
    """True if it was discarded or committed."""

    session: StageSession | None = None
    waiting: dict[tuple[int, int], StagedAppend] = field(default_factory=dict)
    """Pages that wait for their batch, by partition and sequence."""

    @staticmethod
    def stored(record: StageRecord, pages: Mapping[tuple[int, int], StagedPage], now: float) -> Stage:
        """Return a stage as a start found it: the pages of each partition up to the first missing one."""
        stage = Stage(record, now, now, written=True)
        for (partition, sequence), page in sorted(pages.items()):
            if sequence == stage.admitted.get(partition, 0):
                stage.admit(partition, page.count, page.size)
                stage.pages.setdefault(partition, []).append(page)
                stage.durable[partition] = sequence + 1
        return stage

    def admit(self, partition: int, records: int, size: int) -> None:
        """Count a page as admitted."""
        self.admitted[partition] = self.admitted.get(partition, 0) + 1
        self.counts[partition] = self.counts.get(partition, 0) + records
        self.page_count += 1
        self.records += records
        self.size += size

    def lacks(self, parts: Sequence[TokenPart] | StagedSummary) -> str:
        """Return the difference from the parts of a commit; empty if there is none."""
        if isinstance(parts, StagedSummary):
            return self._lacks_of(parts)
        named = {part.partition: part for part in parts}
        if len(named) != len(parts):
            return "a partition is named twice"
        for partition in sorted({*named, *self.admitted}):
            part = named.get(partition, TokenPart(partition, 0, 0))
            staged = self.durable.get(partition, 0)
            if (part.pages, part.records) != (self.admitted.get(partition, 0), self.counts.get(partition, 0)):
                found = _text(self.admitted.get(partition, 0), self.counts.get(partition, 0))
                return f"partition {partition} has {found} staged, named are {part.pages} with {part.records}"
            if staged != part.pages:
                return _not_durable(part.pages - staged, f" of partition {partition}")
        return ""

    def _lacks_of(self, wanted: StagedSummary) -> str:
        counts = self.counts
        staged = StagedSummary.counted([(p, pages, counts.get(p, 0)) for p, pages in self.admitted.items()])
        if staged != wanted:
            named = f"named are {wanted.pages} with {wanted.records}, digest {wanted.digest.hex()}"
            are = plural(staged.pages, "is", "are")
            return f"{_text(staged.pages, staged.records)} {are} staged, {staged.digest.hex()}; {named}"
        if self.durable != self.admitted:
            return _not_durable(wanted.pages - sum(self.durable.values()))
        return ""

    def end(self) -> None:
        """Mark the stage as discarded or committed."""
        self.gone = True
        if self.session is not None:
            self.session.fence()


@dataclass(slots=True, kw_only=True)
class StagedAppend(Append):
    """Page that waits to be staged; ``first`` is its sequence."""

    stage: Stage


AppendStaged = Callable[["StageSession", Incoming, int], Awaitable[StagedAppend]]


@dataclass(slots=True)
class StageQueue:
    """Pending pages of one partition, of all its stages."""

    sink: int
    partition: int
    waiting: deque[Append] = field(default_factory=deque)
    size: int = 0

    def fill(self, group: Group, share: Share, next_number: Callable[[], int]) -> None:
        """Add each page with its name, as received; pages of discarded stages are left out."""
        for append in share.appends:
            assert isinstance(append, StagedAppend)
            stage, page = append.stage, append.page
            if stage.gone:
                append.done.set_exception(WriterFenced(stage.record.token, stage.record.number, None))
                append.done.exception()
                continue
            number, size = next_number(), len(page.body)
            staged = StagedPage(
                number, share.bulk, page.encoding, page.record_count, size, page.crc32, page.traceparent
            )
            stage.pages.setdefault(self.partition, []).append(staged)
            entry = Entry(0, page.record_count, number, share.bulk, size, page.encoding, 0, 0, 0, 0)
            body = Body(page.crc32, page.body)
            group.pages.append(PageWrite(self.sink, self.partition, entry, body, stage.record.number))
            if not stage.written:
                stage.written = True
                group.writes.append(PutStage(self.sink, stage.record))
            group.writes.append(PutStaged(self.sink, stage.record.number, self.partition, append.first, staged))

    def confirm(self, share: Share) -> None:
        """Count the durable pages; no log has grown."""
        for append in share.appends:
            assert isinstance(append, StagedAppend)
            if not append.done.done():
                durable = append.stage.durable
                durable[self.partition] = durable.get(self.partition, 0) + 1

    def notify_readers(self, share: Share) -> None:
        """Do nothing: staged pages have no readers."""


class StageSession:
    """Publish stream that stages pages. It has the methods of ``publishing.Session``."""

    def __init__(self, sink: Sink, stage: Stage, append: AppendStaged) -> None:
        """``append`` admits the next page of the stage and partition, and queues it."""
        self._sink = sink
        self.stage = stage
        self._append = append
        self.epoch = stage.record.number
        """Number with which the publisher resumes."""
        self.fenced: WriterFenced | None = None
        self.on_fenced = asyncio.Event()
        self._begun: set[int] = set()
        """Partitions whose first page arrived in this stream."""

    def next_sequences(self) -> dict[int, int]:
        """Return the next expected sequence per partition with staged pages."""
        return dict(self.stage.admitted)

    def arrived(self, partition: int, sequence: int) -> None:
        """Note the first page of a partition before it is checked: it may be rejected and retried."""
        if sequence == 0:
            self._begun.add(partition)

    async def publish(self, page: Incoming, sequence: int) -> asyncio.Future[PublishResult]:
        """Admit a checked page; the future is done when it is durable.

        Raises as ``publishing.Session.publish``.
        """
        partitions = len(self._sink.logs)
        if page.partition >= partitions:
            raise InvalidPartition(page.partition, partitions)
        self.check()
        self.arrived(page.partition, sequence)
        expected = self.stage.admitted.get(page.partition, 0)
        if sequence < expected:
            return self._joined(page, sequence)
        if sequence > expected:
            if not expected and page.partition not in self._begun:  # earlier staged pages are gone
                raise WriterFenced(self.stage.record.token, self.epoch, None)
            raise BrokerError(Reason.SEQUENCE_GAP, partition=page.partition, sequence=sequence, expected=expected)
        if self._sink.draining:
            raise Draining
        append = await self._append(self, page, sequence)
        key = (page.partition, sequence)
        self.stage.waiting[key] = append
        result: asyncio.Future[PublishResult] = asyncio.get_running_loop().create_future()

        def confirm(done: asyncio.Future[None]) -> None:
            failure = done.exception()
            if failure is None:  # otherwise it stays, so that a duplicate fails as its original did
                self.stage.waiting.pop(key, None)
            pass_on(result, failure, PublishResult(None, page.record_count, duplicate=False, staged=True))

        append.done.add_done_callback(confirm)
        return result

    def _joined(self, page: Incoming, sequence: int) -> asyncio.Future[PublishResult]:
        """Answer a duplicate when its original is durable."""
        loop = asyncio.get_running_loop()
        stored = PublishResult(None, page.record_count, duplicate=True, staged=True)
        original = self.stage.waiting.get((page.partition, sequence))
        crc32 = original.page.crc32 if original is not None else self.stage.pages[page.partition][sequence].crc32
        if crc32 != page.crc32:
            raise BrokerError(Reason.SEQUENCE_CONFLICT, partition=page.partition, sequence=sequence)
        if original is None:
            return done_with(loop, stored)
        result: asyncio.Future[PublishResult] = loop.create_future()
        original.done.add_done_callback(lambda done: pass_on(result, done.exception(), stored))
        return result

    def check(self) -> None:
        """Raise if the stage is gone, or another stream has it."""
        if self.fenced is not None:
            raise self.fenced

    def fence(self) -> None:
        """Fence the stream: another stream has the token, or its stage is gone."""
        self.fenced = WriterFenced(self.stage.record.token, self.epoch, None)
        self.on_fenced.set()

    def end(self) -> None:
        """End the stream; its staged pages wait for the commit."""
        if self.stage.session is self:
            self.stage.session = None
            self.stage.active = self._sink.now()

    async def remove(self) -> None:
        """Do nothing: the publisher has staged everything."""


def _text(pages: int, records: int) -> str:
    return f"{pages} {plural(pages, 'page')} with {records} {plural(records, 'record')}"


def _not_durable(pages: int, where: str = "") -> str:
    return f"{pages} {plural(pages, 'page')}{where} {plural(pages, 'is', 'are')} not durable yet"
