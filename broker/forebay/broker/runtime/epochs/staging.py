"""Staging area of one sink: stored pages that no reader sees before their epoch is committed.

A page is staged under the token of its attempt and is durable when it is answered. It counts towards the sink's limits
from then on. Obsolete stages are discarded at once: those of a run when a newer one begins, the others with the commit
of their epoch, or after `staging_ttl` without an access.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Final

from forebay.broker.core.dead_letters.letters import is_dead_letter_sink
from forebay.broker.core.epochs.producers import Producers
from forebay.broker.core.epochs.values import Claim, ProducerRecord, StagedPage, StagedSummary, StageRecord, Wanted
from forebay.broker.core.errors import (
    BrokerError,
    Draining,
    SinkFull,
    WriterFenced,
)
from forebay.broker.core.partition.pages import Incoming
from forebay.broker.core.settings import BufferMode
from forebay.broker.core.writes import DropProducer, DropStages, Due, PutDue, Write
from forebay.broker.runtime.commit.committer import Committer
from forebay.broker.runtime.commit.durable import Durable
from forebay.broker.runtime.commit.reclaimer import Reclaimer
from forebay.broker.runtime.commit.runs import due_runs
from forebay.broker.runtime.epochs.stage import Stage, StagedAppend, StageQueue, StageSession
from forebay.broker.runtime.read.pages import Pages
from forebay.broker.runtime.resources.quota import Quota
from forebay.broker.runtime.resources.slices import Slices
from forebay.broker.runtime.sink.admission import Admission
from forebay.broker.runtime.sink.state import Sink
from forebay.errors.reasons import Reason
from forebay.state.numbers import plural

_log: Final = logging.getLogger(__name__)
STAGES_MAX: Final = 100_000
"""Tokens of a sink with staged pages; also the bound of a commit."""
FEW_PAGES: Final = 4_000
"""Pages of stages discarded in one batch: other writes wait for it."""
RUNS_FROM: Final = 16
"""Number of stages above which runs of them are deleted as ranges."""
START_BITS: Final = 40
"""Bits below the start count in the number of a stage, as in page numbers."""


class Staging:
    """Stages and producers of one sink. Used on the loop only."""

    def __init__(
        self,
        sink: Sink,
        admission: Admission,
        producers: Iterable[ProducerRecord] = (),
        stages: Iterable[StageRecord] = (),
        staged: Mapping[int, Mapping[tuple[int, int], StagedPage]] | None = None,
        *,
        committer: Committer,
        reclaimer: Reclaimer,
        pages: Pages,
        quota: Quota,
        start_count: int,
        restored_at_us: int = 0,
    ) -> None:
        """``restored_at_us`` is the time at which the sink was restored from a backup, 0 if it was not."""
        self._sink = sink
        self._admission = admission
        self._committer = committer
        self._reclaimer = reclaimer
        self._pages = pages
        self._quota = quota
        self._start_count = start_count
        self.producers = Producers(sink.name, restored_at_us)
        self.producers.restore(producers, sink.age.now_us())
        self._stages: dict[tuple[str, int, str], Stage] = {}
        """Stages by producer, epoch and token."""
        self._queues: dict[int, StageQueue] = {}
        self.waiting = 0
        """Pages that wait for their batch."""
        self._committing: Counter[str] = Counter()
        """Commits whose batch is not durable yet, by producer."""
        self._recovered = True
        """True until the first sweep has checked the stages that a start found."""
        self._leaving: set[int] = set()
        """Numbers of released stages whose names are not deleted yet."""
        self._discards: set[asyncio.Task[None]] = set()
        self.spent: set[str] = set()
        """Producers whose epochs have no page left, as of the last sweep of ``runtime.epochs``."""
        for record in stages:
            stage = Stage.stored(record, (staged or {}).get(record.number, {}), sink.now())
            self._stages[record.producer, record.epoch, record.token] = stage
            self.producers.saw(record)
            self._count(stage.records, stage.size)

    @property
    def committing(self) -> int:
        """Commits whose batch is not durable yet. They have released their stages, or are about to."""
        return self._committing.total()

    @contextmanager
    def commit_of(self, producer: str) -> Iterator[None]:
        """Keep the record of a producer while its commit is written."""
        self._committing[producer] += 1
        try:
            yield
        finally:
            self._committing -= Counter([producer])

    @contextmanager
    def names_kept(self, stages: Iterable[Stage]) -> Iterator[None]:
        """Keep the names of released stages out of the ranges that others delete.

        After a crash before the batch of the commit is durable, they are committed again.
        """
        numbers = {stage.record.number for stage in stages}
        self._leaving |= numbers
        try:
            yield
        finally:
            self._leaving -= numbers

    @property
    def stages(self) -> list[Stage]:
        """All stages."""
        return list(self._stages.values())

    def _count(self, records: int, size: int) -> None:
        self._sink.staged.records += records
        self._sink.staged.size += size
        self._quota.add(size)

    # -- staging

    def open(self, claim: Claim, token: str, resumed: int | None, *, application: str = "") -> StageSession:
        """Open a stream that stages, or resume the stage of the same token.

        ``application`` is shown with the producer. ``resumed`` is the number of the stage that the publisher has seen.
        Raises ``STAGING_UNSUPPORTED``, ``WriterFenced`` if its stage is gone, and the errors of ``Producers.stage``.
        """
        if self._sink.draining:
            raise Draining
        self._check_supported()
        if self.producers.stage(claim):
            self.discard(s for s in self.stages if s.record.producer == claim.producer and s.record.run != claim.run)
        if application:
            self.producers.applications[claim.producer] = application
        key = (claim.producer, claim.epoch, token)
        stage = self._stages.get(key)
        if stage is None:
            if resumed is not None and resumed >> START_BITS == self._start_count:
                raise WriterFenced(token, resumed, None)  # it was discarded, or it never had a page: both end it
            self._check_room_for_stage()
            number = self._committer.next_number()
            record = StageRecord(number, claim.producer, claim.write_name, claim.epoch, token, claim.run, claim.ticket)
            stage = self._stages[key] = Stage(record, self._sink.now(), self._sink.now())
        if stage.session is not None:
            stage.session.fence()
        stage.active = self._sink.now()
        stage.session = StageSession(self._sink, stage, self._append)
        return stage.session

    def check_writable(self) -> None:
        """Raise ``STAGING_UNSUPPORTED`` where only the broker writes."""
        if is_dead_letter_sink(self._sink.name):
            raise BrokerError(Reason.STAGING_UNSUPPORTED, "only the broker writes dead letters", sink=self._sink.name)

    def _check_supported(self) -> None:
        self.check_writable()
        if self._sink.settings.buffer_mode == BufferMode.MEMORY:
            raise BrokerError(
                Reason.STAGING_UNSUPPORTED, "it is in MEMORY mode, which stores nothing", sink=self._sink.name
            )

    def _check_room_for_stage(self) -> None:
        if len(self._stages) >= STAGES_MAX:
            raise SinkFull(self._sink.name, "staged tokens", STAGES_MAX, len(self._stages))

    async def _append(self, session: StageSession, page: Incoming, sequence: int) -> StagedAppend:
        """Admit a checked page, the next one of its stage and partition, and queue it."""
        async with self._sink.admission:
            await self._admission.admit_staged(page.record_count, len(page.body))
            session.check()
            return self._queue(session.stage, page, sequence)

    def _queue(self, stage: Stage, page: Incoming, sequence: int) -> StagedAppend:
        partition, records, size = page.partition, page.record_count, len(page.body)
        queue = self._queues.setdefault(partition, StageQueue(self._sink.id, partition))
        append = StagedAppend(
            page=page,
            first=sequence,
            accepted_at_us=0,
            age_us=0,
            slot=None,
            page_records=0,
            done=Durable(),
            stage=stage,
        )
        stage.admit(partition, records, size)
        stage.active = self._sink.now()
        self._count(records, size)
        self.waiting += 1
        append.done.add_done_callback(self._settled)
        self._committer.append(queue, append)
        return append

    def _settled(self, _: asyncio.Future[None]) -> None:
        self.waiting -= 1

    # -- committing, see ``runtime.epochs``

    async def complete(self, wanted: Wanted, slices: Slices) -> list[Stage]:
        """Return the stages of a commit in its order; raises ``STAGED_INCOMPLETE`` unless all are durable.

        Called with the admission held, so that none of them grows; see ``check_there``.
        """
        found: list[Stage] = []
        claim = wanted.claim
        for token, parts in wanted.tokens:
            await slices.turn()
            stage = self._stages.get((claim.producer, claim.epoch, token))
            if stage is None and (parts.pages == 0 if isinstance(parts, StagedSummary) else not parts):
                continue  # an attempt without a row
            problem = "nothing of it is staged" if stage is None else stage.lacks(parts)
            if problem or stage is None:
                raise BrokerError(Reason.STAGED_INCOMPLETE, problem, sink=self._sink.name, token=token)
            found.append(stage)
        named = sum(stage.records for stage in found)
        if wanted.content is not None and wanted.content.records != named:
            stated = f"{wanted.content.records} {plural(wanted.content.records, 'record')}"
            problem = f"the commit states {stated}, and its tokens have {named} staged"
            raise BrokerError(Reason.STAGED_INCOMPLETE, problem, sink=self._sink.name, token="*")
        return found

    def check_there(self, stages: Iterable[Stage]) -> None:
        """Raise ``STAGED_INCOMPLETE`` for a stage that was discarded since it was found complete."""
        gone = next((stage for stage in stages if stage.gone), None)
        if gone is not None:
            raise BrokerError(
                Reason.STAGED_INCOMPLETE,
                "it was discarded during the commit",
                sink=self._sink.name,
                token=gone.record.token,
            )

    def release(self, stages: Iterable[Stage]) -> list[Write]:
        """Remove stages that are committed or discarded; returns the writes for it."""
        gone: list[int] = []
        for stage in stages:
            record = stage.record
            del self._stages[record.producer, record.epoch, record.token]
            self._sink.staged.records -= stage.records
            self._sink.staged.size -= stage.size
            stage.end()
            if stage.written:
                gone.append(record.number)
        sink = self._sink.id
        return [DropStages(sink, first, last) for first, last in self._runs(gone)]

    def _runs(self, gone: list[int]) -> Iterator[tuple[int, int]]:
        """Yield runs of stage numbers between which no other stage exists.

        The names of a run are deleted as one range: thousands of deleted ranges would slow down the store, also later.
        """
        if len(gone) < RUNS_FROM:
            yield from ((number, number) for number in gone)
            return
        kept = sorted([*(stage.record.number for stage in self._stages.values()), *self._leaving])
        for _, run in groupby(sorted(gone), key=lambda number: bisect_left(kept, number)):
            numbers = list(run)
            yield numbers[0], numbers[-1]

    def leftover(self, claim: Claim) -> list[Stage]:
        """Return the stages of a producer up to a committed epoch, and those of older runs."""
        own = [stage for stage in self.stages if stage.record.producer == claim.producer]
        return [stage for stage in own if stage.record.epoch <= claim.epoch or _is_older(stage.record, claim)]

    # -- discarding

    def discard(self, stages: Iterable[Stage]) -> asyncio.Future[None] | None:
        """Discard stages; the future is done when that is durable, None if none of them was stored.

        They can no longer be committed. The names of large stages are deleted in several batches; the first sweep after
        a crash discards the rest.
        """
        gone = list(stages)
        if not are_few(gone):
            return self._discard_many(gone)
        writes, due = self.discarding(gone)
        if not writes:
            return None
        written = self._committer.write(writes)
        written.add_done_callback(lambda done: None if done.exception() else self._reclaimer.add(due))
        return written

    def discarding(self, stages: Iterable[Stage]) -> tuple[list[Write], list[Due]]:
        """Discard stages: returns the writes, and the pages to reclaim when they are durable."""
        gone = list(stages)
        writes = self.release(gone)
        due = [each for stage in gone for each in self._due(stage)]
        return [*writes, *(PutDue(each) for each in due)], due

    def _due(self, stage: Stage) -> Iterator[Due]:
        """Release the memory of a removed stage; yields its pages for the reclaimer."""
        self._quota.remove(stage.size)
        for partition, pages in stage.pages.items():
            yield from due_runs(self._sink.id, partition, pages)
            self._pages.read_cache.drop(self._sink.id, [page.number for page in pages])

    def _discard_many(self, gone: list[Stage]) -> asyncio.Future[None]:
        """Remove stages now, and delete their names in batches between those of other tasks."""
        stored = [stage for stage in gone if stage.written]
        self.release(gone)
        self._leaving |= {stage.record.number for stage in stored}
        for stage in gone:
            if not stage.written:
                self._quota.remove(stage.size)
        task = asyncio.get_running_loop().create_task(self._delete_names(stored), name="forebay-discard")
        self._discards.add(task)
        task.add_done_callback(self._discarded)
        return task

    async def _delete_names(self, stages: list[Stage]) -> None:
        slices = Slices()
        while stages and not self._sink.deleted:
            batch = _first_few(stages)
            writes: list[Write] = []
            due: list[Due] = []
            for stage in batch:
                writes.append(DropStages(self._sink.id, stage.record.number, stage.record.number))
                due += self._due(stage)
                await slices.turn()
            written = self._committer.write([*writes, *(PutDue(each) for each in due)])
            self._leaving -= {stage.record.number for stage in batch}
            await written
            self._reclaimer.add(due)
        for stage in stages:  # the sink is deleted, and their bytes with it
            self._quota.remove(stage.size)

    def _discarded(self, task: asyncio.Task[None]) -> None:
        self._discards.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            _log.error("staged pages were not discarded sink=%s cause=%s", self._sink.name, failure)

    async def close(self) -> None:
        """Return when no discard is in progress."""
        await asyncio.gather(*self._discards, return_exceptions=True)

    async def abort(self, producer: str, epoch: int, tokens: Sequence[str]) -> int:
        """Discard the named tokens, as far as they are staged; returns their number."""
        found = [self._stages.get((producer, epoch, token)) for token in dict.fromkeys(tokens)]
        stages = [stage for stage in found if stage is not None]
        written = self.discard(stages)
        if written is not None:
            await asyncio.shield(written)
        return len(stages)

    def sweep(self) -> None:
        """Discard stages not accessed for `staging_ttl`, and drop producers without pages."""
        ttl_s = self._sink.settings.staging_ttl_us / 1_000_000
        active: dict[tuple[str, int], float] = {}
        for stage in self.stages:
            key = (stage.record.producer, stage.record.epoch)
            latest = self._sink.now() if stage.session is not None else stage.active
            active[key] = max(active.get(key, latest), latest)
        late = {key for key, at in active.items() if at < self._sink.now() - ttl_s}
        self.discard(s for s in self.stages if (s.record.producer, s.record.epoch) in late)
        if self._recovered:
            self._recovered = False
            self.discard(stage for stage in self.stages if self._is_spent(stage.record))
        oldest_us = self._sink.age.now_us() - self._sink.settings.staging_ttl_us
        in_use = {producer for producer, _ in active} | self._committing.keys()
        for record in self.producers.idle(in_use, self.spent, oldest_us):
            self.producers.remove(record.producer)
            if record.epoch is not None:
                self._committer.write([DropProducer(self._sink.id, record.producer)])

    def _is_spent(self, stage: StageRecord) -> bool:
        """Return whether a stage can no longer be committed: a crash prevented its discard."""
        known = self.producers.known.get(stage.producer)
        if known is None:
            return False
        older = bool(known.run) and known.run != stage.run and stage.ticket < known.ticket
        return older or (known.epoch is not None and stage.epoch <= known.epoch)

    def clear(self) -> None:
        """Release all stages of a sink that is being deleted."""
        stages = self.stages
        self.release(stages)
        self._quota.remove(sum(stage.size for stage in stages))


def _is_older(record: StageRecord, claim: Claim) -> bool:
    return record.run != claim.run and record.ticket < claim.ticket


def are_few(stages: Iterable[Stage]) -> bool:
    """Return True if stages may be discarded in one batch."""
    return sum(stage.page_count for stage in stages) <= FEW_PAGES


def _first_few(stages: list[Stage]) -> list[Stage]:
    """Take the first stages for one batch, at least one."""
    found = [stages.pop()]
    pages = found[0].page_count
    while stages and pages + stages[-1].page_count <= FEW_PAGES:
        found.append(stages.pop())
        pages += found[-1].page_count
    return found
