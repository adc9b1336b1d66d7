"""Sweep of epochs without pages; it reads the first epochs of each producer, whose pages go first."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from forebay.broker.core.epochs.values import EpochRecord
from forebay.broker.core.errors import ReadFailed, StoreFenced
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.writes import DropEpoch, Write
from forebay.broker.runtime.commit.committer import Committer
from forebay.broker.runtime.read.pages import Pages
from forebay.broker.runtime.resources.slices import Slices
from forebay.broker.runtime.sink.buffer import Buffer

_log: Final = logging.getLogger(__name__)
FRONT: Final = 64
"""Epochs of a producer read together."""


@dataclass(slots=True)
class Front:
    """First epochs of a producer."""

    epochs: list[EpochRecord] = field(default_factory=list)
    looked: int = 0
    """Number below which its epochs were read."""


class EpochSweep:
    """Sweep over the epochs of all sinks, once a second. Used on the loop only."""

    def __init__(self, committer: Committer, pages: Pages, sinks: Callable[[], Iterable[Buffer]]) -> None:
        self._committer = committer
        self._pages = pages
        self._sinks = sinks
        self._fronts: dict[tuple[int, str], Front] = {}
        """Fronts by sink and producer."""

    async def sweep(self) -> None:
        """Delete epochs without pages."""
        known: set[tuple[int, str]] = set()
        slices = Slices()
        for buffer in list(self._sinks()):
            for producer in list(buffer.staging.producers.known):
                await slices.turn()
                if producer not in buffer.staging.producers.known:
                    continue
                key = (buffer.record.id, producer)
                known.add(key)
                try:
                    await self._sweep(buffer, producer, key)
                except (ReadFailed, StoreFenced) as damage:
                    _log.error("epochs could not be read sink=%s cause=%s", buffer.name, damage)
        for key in self._fronts.keys() - known:
            del self._fronts[key]

    async def _sweep(self, buffer: Buffer, producer: str, key: tuple[int, str]) -> None:
        last = buffer.staging.producers.known[producer].epoch
        front = self._fronts.setdefault(key, Front())
        if not front.epochs and last is not None and last >= front.looked:
            pages = self._pages
            front.epochs = await pages.call(pages.journal.epochs, buffer.record.id, producer, front.looked, FRONT)
            front.looked = (front.epochs[-1].epoch if front.epochs else last) + 1
        gone: list[Write] = []
        while front.epochs and front.epochs[0].epoch != last and _is_gone(front.epochs[0], buffer.logs):
            epoch = front.epochs.pop(0)
            partitions = tuple(part.partition for part in epoch.parts)
            gone.append(DropEpoch(buffer.record.id, producer, epoch.epoch, partitions))
        if gone:
            self._committer.write(gone)
        last = buffer.staging.producers.known[producer].epoch  # another epoch may have been committed since
        lives = last is None or last >= front.looked
        if lives or any(epoch.epoch != last or not _is_gone(epoch, buffer.logs) for epoch in front.epochs):
            buffer.staging.spent.discard(producer)
        else:
            buffer.staging.spent.add(producer)


def _is_gone(epoch: EpochRecord, logs: Sequence[PartitionLog]) -> bool:
    return all(part.end <= logs[part.partition].head.earliest for part in epoch.parts)
