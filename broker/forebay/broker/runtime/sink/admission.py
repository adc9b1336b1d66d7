"""Admission: the decision whether records, live or staged, are accepted now.

It is one ordered list of gates. A gate lets the request pass, raises, or returns something to wait for: then all gates
are checked again, because anything may have changed since. When the last gate passes, the records may be queued
without a wait. Appends of a sink are admitted one at a time, under the sink's admission lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from forebay.broker.core.errors import BrokerError, ReadFailed, SinkFull
from forebay.broker.core.partition.pages import DropReason, Incoming
from forebay.broker.core.publish.limits import Demand, Drop, Wait, admit, demand, oldest
from forebay.broker.core.settings import BufferMode, Overflow
from forebay.broker.runtime.commit.committer import Committer
from forebay.broker.runtime.commit.reservations import Reservations
from forebay.broker.runtime.instruments import Instruments
from forebay.broker.runtime.read.pages import Pages
from forebay.broker.runtime.resources.memory import MemoryGuard
from forebay.broker.runtime.resources.quota import Quota
from forebay.broker.runtime.sink.memory_tier import MemoryTier
from forebay.broker.runtime.sink.retention.removal import Removal
from forebay.broker.runtime.sink.retention.retention import Retention
from forebay.broker.runtime.sink.state import Sink


@dataclass(slots=True)
class Request:
    """Records that ask for admission together: all or none."""

    records: int
    size: int
    offsets: Mapping[int, int]
    """Records that need offsets, by partition: none of those that are staged."""

    is_staged: bool = False
    gave_memory: bool = False
    """True if pages were dropped for it because memory is short."""

    unreadable: dict[int, ReadFailed] = field(default_factory=dict)
    """Partitions whose oldest pages cannot be found now: others give up theirs."""

    at_the_limit: bool = False
    """True if it is over a limit, and no page may be dropped: it is admitted as it is."""


class Admission:
    """Gates of one sink. Used on the loop."""

    def __init__(
        self,
        sink: Sink,
        offsets: Reservations,
        tier: MemoryTier,
        removal: Removal,
        retaining: Retention,
        *,
        committer: Committer,
        pages: Pages,
        memory: MemoryGuard,
        quota: Quota,
        instruments: Instruments,
    ) -> None:
        self._sink = sink
        self._offsets = offsets
        self._tier = tier
        self._removal = removal
        self._retaining = retaining
        self._committer = committer
        self._pages = pages
        self._memory = memory
        self._quota = quota
        self._instruments = instruments
        self._gates: Final[Sequence[Callable[[Request], Awaitable[None] | None]]] = (
            self._sink_exists,
            self._offsets_are_reserved,
            self._memory_is_given_up,
            self._store_accepts,
            self._limits_hold,
            self._quota_holds,
        )

    async def admit(self, pages: Sequence[Incoming]) -> None:
        """Return when pages may be queued without a wait: there is room, and their offsets are reserved.

        Settings may change while an append waits: one that began in a sink with ``fsync`` may end in one without.
        """
        offsets: dict[int, int] = {}
        size = 0
        for page in pages:
            offsets[page.partition] = offsets.get(page.partition, 0) + page.record_count
            size += len(page.body)
        await self._pass(Request(sum(offsets.values()), size, offsets))

    async def admit_staged(self, records: int, size: int) -> None:
        """Return when a page may be staged; raises ``SinkFull`` if it would not fit.

        So a commit exceeds no limit.
        """
        await self._pass(Request(records, size, {}, is_staged=True))

    async def make_room(self, records: int, size: int) -> None:
        """Drop pages for staged records that become live; the staged ones are counted already."""
        request = Request(records, size, {})
        while self._sink.settings.overflow == Overflow.DROP_OLDEST and not request.at_the_limit:
            freeing = self._limits_hold(request)
            if freeing is None:
                return
            await freeing
            self._sink.check_alive()
            if self._committer.fenced is not None:
                raise self._committer.fenced

    async def _pass(self, request: Request) -> None:
        try:
            while (waiting := self._first_wait(request)) is not None:
                request.at_the_limit = False
                await waiting
        except BrokerError as error:
            self._instruments.append_refused(self._sink.name, error.reason.name)
            raise

    def _first_wait(self, request: Request) -> Awaitable[None] | None:
        for gate in self._gates:
            waiting = gate(request)
            if waiting is not None:
                return waiting
        return None

    # -- the gates, in order

    def _sink_exists(self, _: Request) -> None:
        self._sink.check_alive()

    def _offsets_are_reserved(self, request: Request) -> Awaitable[None] | None:
        for partition, records in request.offsets.items():
            extending = self._offsets.extending(partition, records)
            if extending is not None:
                return asyncio.shield(extending)
        return None

    def _memory_is_given_up(self, request: Request) -> None:
        """Drop as many bytes as a new page needs, while memory is short and the sink may not write."""
        sink = self._sink
        if sink.settings.buffer_mode != BufferMode.MEMORY or request.is_staged or request.gave_memory:
            return
        if not self._tier.pressed:
            return
        request.gave_memory = True
        found = oldest(sink.logs, self._in_flight(), 0, request.size)
        if not isinstance(found, Wait):
            self._drop(found, DropReason.MEMORY_PRESSURE)

    def _store_accepts(self, request: Request) -> None:
        """Raise unless there is room for a page to be written, if the sink may write."""
        settings, committer = self._sink.settings, self._committer
        if settings.buffer_mode != BufferMode.MEMORY:
            committer.admit(request.size)
            if settings.memory_overload_protection:
                self._memory.admit(committer.waiting_bytes, request.size)
        elif committer.fenced is not None:
            raise committer.fenced

    def _limits_hold(self, request: Request) -> Awaitable[None] | None:
        if request.at_the_limit:
            return None
        wanted = self._demand(request)
        return self._free(request, wanted) if max(wanted.excess(self._sink.settings)) > 0 else None

    def _quota_holds(self, request: Request) -> None:
        self._quota.admit(request.size)  # after the sink's own drops, which free room in it too

    # -- room within the limits

    def _demand(self, request: Request) -> Demand:
        sink, staged = self._sink, self._sink.staged.usage
        return demand(sink.settings, sink.live, staged, request.records, request.size, is_staged=request.is_staged)

    async def _free(self, request: Request, wanted: Demand) -> None:
        """Free room for a request that does not fit, or raise why there is none."""
        may_drop = self._sink.settings.overflow == Overflow.DROP_OLDEST
        if not (request.is_staged and may_drop):  # no loss, so it goes before anything is dropped or refused
            for log in self._sink.logs:
                with suppress(ReadFailed):  # nothing of it is trimmed; what is settled of the others is
                    await self._removal.trim(log, repair=False)
            if self._retaining.active and await self._free_retained(request):
                return
            self._sink.check_alive()
            may_drop = self._sink.settings.overflow == Overflow.DROP_OLDEST
            wanted = self._demand(request)
        in_flight = self._in_flight() if may_drop else ()
        logs = [log for log in self._sink.logs if log.number not in request.unreadable]
        try:
            decision = admit(self._sink.name, self._sink.settings, wanted, logs, in_flight)
        except SinkFull:
            self._sink.note_limit(rejected=True)
            raise
        if not isinstance(decision, Wait):
            if decision:
                self._sink.note_limit(rejected=False)
            elif request.unreadable and max(wanted.excess(self._sink.settings)) > 0:
                raise next(iter(request.unreadable.values()))
            self._drop(decision, DropReason.OVERFLOW)
            request.at_the_limit = not decision
        elif decision.load is not None:
            try:
                await self._pages.load_more(self._sink.id, self._sink.logs[decision.load])
            except ReadFailed as failure:
                request.unreadable[decision.load] = failure
        else:
            await self._committer.committed.next().wait()

    async def _free_retained(self, request: Request) -> bool:
        """Remove settled pages, the oldest first, until a request fits; False if none could be removed."""
        wanted, freed = self._demand(request), False
        if wanted.never_fits(self._sink.settings):
            return False
        records, size = wanted.excess(self._sink.settings)
        while records > 0 or size > 0:
            chosen = await self._retaining.oldest(records, size)
            self._sink.check_alive()
            if not chosen:
                return freed
            freed = True
            for number, entries in chosen.items():
                self._removal.take_out(self._sink.logs[number], entries)
                records -= sum(entry.count for entry in entries)
                size -= sum(entry.size for entry in entries)
        return freed

    def _in_flight(self) -> list[frozenset[int]]:
        return [frozenset(self._sink.in_flight(log.number)) for log in self._sink.logs]

    def _drop(self, drops: Sequence[Drop], reason: DropReason) -> None:
        for log in self._sink.logs:
            entries = [drop.entry for drop in drops if drop.partition == log.number]
            if entries:
                self._removal.drop(log.number, entries, reason)
