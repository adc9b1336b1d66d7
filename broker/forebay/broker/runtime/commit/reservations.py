"""Reservation of offsets before they are assigned, and the counts of those that were.

A partition whose sink may lose accepted records never assigns an offset that is not durably reserved. Records accepted
in memory are also counted in a place that survives a kill of the process: see ``storage.records.accepted``. Used on the
loop only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from forebay.broker.core.partition.reservation import BLOCK, Reserve
from forebay.broker.core.settings import BufferMode
from forebay.broker.core.writes import DropReserve, PutReserve, Write
from forebay.broker.runtime.commit.accepted import Slots
from forebay.broker.runtime.commit.committer import Committer
from forebay.broker.runtime.sink.state import Sink


@dataclass(frozen=True, slots=True)
class _Extension:
    """Reservation that is being written."""

    reserve: Reserve
    counted: asyncio.Future[None]
    """Done when the extension is effective, so that a waiter finds it in place."""


class Reservations:
    """Reserved offsets of one sink."""

    def __init__(self, sink: Sink, committer: Committer, slots: Slots, reserves: Mapping[int, Reserve]) -> None:
        self._sink = sink
        self._committer = committer
        self._slots = slots
        self._reserves = dict(reserves)
        self._under_way: dict[int, _Extension] = {}

    async def reserve(self, partition: int, records: int) -> None:
        """Return when ``records`` more offsets may be assigned; raises ``StoreFenced``."""
        while (extending := self.extending(partition, records)) is not None:
            await asyncio.shield(extending)

    def extending(self, partition: int, records: int) -> asyncio.Future[None] | None:
        """Return the extension to await before ``records`` more offsets may be assigned; None if none.

        The caller must not cancel it, and calls again when it is done.
        """
        if not self._sink.settings.may_lose:
            return None
        needed = self._sink.logs[partition].next_offset + records
        found = self._reserves.get(partition)
        if found is None or found.end < needed:
            return self._extend(partition, needed)
        if found.end - needed < BLOCK // 2:
            self._extend(partition, needed)
        return None

    def _extend(self, partition: int, needed: int) -> asyncio.Future[None]:
        """Extend the reservation, one extension at a time."""
        under_way = self._under_way.get(partition)
        if under_way is not None:
            return under_way.counted
        found = self._reserves.get(partition)
        slot = found.slot if found is not None else None
        if slot is None and self._sink.settings.buffer_mode != BufferMode.DISK:
            slot = self._slots.allocate()
            if slot is not None:
                self._slots.accepted.note(slot, self._sink.logs[partition].tail.next_offset)
        counted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        extension = self._under_way[partition] = _Extension(Reserve(needed + BLOCK, slot), counted)
        put = PutReserve(self._sink.id, partition, extension.reserve)

        def done(written: asyncio.Future[None]) -> None:
            wanted = self._under_way.get(partition) is extension  # else the sink has changed its durability
            if wanted:
                del self._under_way[partition]
            failure = written.exception()
            if failure is not None:
                counted.set_exception(failure)
                counted.exception()  # retrieved: an extension made ahead may have no waiter
                return
            if wanted:
                self._reserves[partition] = extension.reserve
            counted.set_result(None)

        self._committer.write([put]).add_done_callback(done)
        return counted

    def note(self, partition: int, end: int) -> None:
        """Count everything below ``end`` as accepted in memory, before it is reported."""
        slot = self._reserves[partition].slot
        if slot is not None:
            self._slots.accepted.note(slot, end)

    def end(self, beside: Sequence[Write]) -> asyncio.Future[None]:
        """Remove the reservations of a sink that is durable on disk from now on; written with ``beside``."""
        gone = self._allocate_slots()
        drops = [DropReserve(self._sink.id, partition) for partition in gone]
        written = self._committer.write([*beside, *drops])

        def done(over: asyncio.Future[None]) -> None:
            if over.exception() is None:  # until then a crash restores the reservations, with their slots
                self._free(gone)

        written.add_done_callback(done)
        return written

    def final(self) -> Iterator[tuple[int, Write]]:
        """Yield the final reservations, by partition, when this process assigns no more offsets."""
        for partition, reserve in self._reserves.items():
            end = self._sink.logs[partition].tail.next_offset
            yield partition, PutReserve(self._sink.id, partition, Reserve(end, reserve.slot))

    def free_slots(self) -> None:
        """Free the slots after the durable deletion of the sink."""
        self._free(self._allocate_slots())

    def _allocate_slots(self) -> dict[int, Reserve]:
        gone = {**self._reserves, **{number: under_way.reserve for number, under_way in self._under_way.items()}}
        self._reserves, self._under_way = {}, {}
        return gone

    def _free(self, reserves: Mapping[int, Reserve]) -> None:
        for reserve in reserves.values():
            if reserve.slot is not None:
                self._slots.free(reserve.slot)
