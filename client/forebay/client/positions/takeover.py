"""Takeover of partitions by a consumer: the start of each, and the write that fences the owner before.

All starts are decided before the first write, so a start that is refused leaves no position behind.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from forebay.client.admin.sinks import Sinks
from forebay.client.calls import BlockingCalls
from forebay.client.errors import OffsetTrimmed, PositionConflict, PositionFenced
from forebay.client.positions.position import PositionKey, SavedPosition
from forebay.client.positions.restores import check_restored
from forebay.client.positions.saver import TAKE_OVER_TRIES, PositionSaver
from forebay.client.positions.settings import ConsumerSettings
from forebay.client.positions.start import (
    Bounds,
    OnMisfit,
    SavedState,
    Start,
    openings,
    start_of,
    start_point,
    wanted_offset,
)
from forebay.client.positions.subscription import ReadSubscription
from forebay.client.replay.pages import PageReplay
from forebay.client.transport.channel import Channels
from forebay.client.values.records import Gap
from forebay.client.values.sinks import SinkStats
from forebay.client.values.subscriptions import Position

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Taken:
    """Partition with its start, decided and then taken over."""

    bounds: Bounds
    start: Start
    first: int
    """First offset to read."""

    point: Position | None
    """Start point of the partition, for another decision."""

    restore: Gap | None
    """Gap of the last restore of the broker, if it has the saved positions too."""

    saved: SavedPosition | None
    """Position that was read for the decision."""

    version: str | None
    """Version of that position in the store."""


class Takeover:
    """Takeover of the partitions of one sink. Used by one thread."""

    def __init__(
        self,
        channels: Channels,
        sinks: Sinks,
        sink: str,
        name: str,
        saver: PositionSaver,
        settings: ConsumerSettings,
    ) -> None:
        self._channels = channels
        self._sinks = sinks
        self._sink = sink
        self._name = name
        self._saver = saver
        self._settings = settings

    def decide(
        self,
        found: SinkStats,
        incarnation: str,
        opened: Collection[int],
        subscription: ReadSubscription | None,
        restores: Mapping[int, Gap],
    ) -> list[Taken]:
        """Return the starts of the partitions that are not open, in the order of their takeover.

        Writes nothing. Raises ``PositionUnusable``, and the errors of the store and of a replay.
        """
        new = {one.partition: one for one in found.partitions if one.partition not in opened}
        read = {partition: self._read(partition) for partition in new}
        known = {partition for partition, (saved, _) in read.items() if saved and saved.incarnation == incarnation}
        order = openings(new, known.union(opened))
        decided = {}
        for opening in sorted(order):
            one = new[opening.partition]
            unsettled = subscription.start(found, one.partition) if subscription is not None else None
            point = start_point(self._settings.start, is_added=opening.is_added, unsettled=unsettled)
            bounds = Bounds(one.partition, incarnation, one.earliest_offset, one.next_offset)
            decided[one.partition] = self._decide(bounds, point, restores.get(one.partition), *read[one.partition])
        return [decided[opening.partition] for opening in order]

    def take(self, one: Taken) -> Taken:
        """Take a partition over; returns another start if its position was written concurrently.

        A trimmed position that continues at the earliest record is kept: the gap, once it is handed out, moves it, so
        a start that is repeated reports the gap again. One that continues at the end is replaced, because the end of
        the next start would be after records that were to be read.
        Raises ``PositionFenced``, ``PositionStoreUnavailable``, and as ``decide``.
        """
        if not self._settings.checkpointing:
            return one
        key = self._key(one.bounds.partition)
        for _ in range(TAKE_OVER_TRIES):
            try:
                self._saver.take_over(
                    *(key, one.saved, one.version), incarnation=one.bounds.incarnation, start=self._kept(one)
                )
            except PositionConflict:
                one = self._decide(one.bounds, one.point, one.restore, *self._read(key.partition))
                continue
            return one
        raise PositionFenced(
            f"{TAKE_OVER_TRIES} other consumers named {self._name!r} took over partition {key.partition} concurrently",
            facts={"partition": str(key.partition), "consumer": self._name},
        )

    def _kept(self, one: Taken) -> int:
        """Return the position to take a partition over with."""
        skipped = one.start.skipped
        return one.first if skipped is None or self._settings.on_misfit != OnMisfit.EARLIEST else skipped[0]

    def _key(self, partition: int) -> PositionKey:
        return PositionKey(self._settings.namespace, self._name, self._sink, partition)

    def _read(self, partition: int) -> tuple[SavedPosition | None, str | None]:
        return self._saver.read(self._key(partition)) if self._settings.checkpointing else (None, None)

    def _decide(
        self,
        bounds: Bounds,
        point: Position | None,
        restore: Gap | None,
        saved: SavedPosition | None,
        version: str | None,
    ) -> Taken:
        settings = self._settings
        check_restored(self._key(bounds.partition), saved, restore, settings)
        bounds = self._not_older(bounds, saved)
        wanted = wanted_offset(point, saved, bounds, checkpointing=settings.checkpointing)
        bounds = self._reachable(wanted, bounds)
        start = start_of(
            *(point, saved, bounds), checkpointing=settings.checkpointing, on_misfit=OnMisfit(settings.on_misfit)
        )
        first = self._offset_of(start.at, bounds)
        if saved is not None and settings.checkpointing and start.state is not SavedState.PRESENT:
            _log.warning(
                "the saved position cannot be resumed: the policy decided sink=%s consumer=%s partition=%d state=%r "
                "position=%d on_misfit=%s start=%d earliest=%d end=%d",
                *(self._sink, self._name, bounds.partition, start.state.value, saved.offset),
                *(settings.on_misfit, first, bounds.earliest, bounds.end),
            )
        return Taken(bounds, start, first, point, restore, saved, version)

    def _not_older(self, bounds: Bounds, saved: SavedPosition | None) -> Bounds:
        """Return bounds that were read after a saved position.

        The consumer that wrote it may still run: it has read, and saved, records that are newer than the bounds.
        """
        if saved is None or saved.offset <= bounds.end:
            return bounds
        found = self._sinks.stats(self._sink)
        if found.incarnation != bounds.incarnation:
            return bounds
        [one] = [one for one in found.partitions if one.partition == bounds.partition]
        return replace(bounds, earliest=one.earliest_offset, end=one.next_offset)

    def _offset_of(self, at: int | datetime, bounds: Bounds) -> int:
        if isinstance(at, int):
            return at
        puller = BlockingCalls(self._channels)
        return puller.offset_at(self._sink, at, partition=bounds.partition, incarnation=bounds.incarnation)

    def _reachable(self, wanted: int | None, bounds: Bounds) -> Bounds:
        """Return bounds whose earliest offset is the lowest that can be read.

        A dropped offset can be read: it is reported as a gap.
        """
        if wanted is None or wanted >= bounds.earliest:
            return bounds
        with PageReplay(
            self._channels,
            self._sink, partition=bounds.partition, start=wanted, end=wanted + 1, on_gap="yield",
            incarnation=bounds.incarnation,
        ) as replay:  # fmt: skip
            try:
                next(replay, None)
            except OffsetTrimmed:
                return bounds
        return replace(bounds, earliest=wanted)
