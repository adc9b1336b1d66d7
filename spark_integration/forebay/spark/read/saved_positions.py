"""Positions of a stream in a store beside Spark's checkpoint, for the day that the checkpoint is lost.

Records below a saved position were in a committed micro-batch, as those below the position of the checkpoint were.
So the higher one of both is right, in each partition. A position of another sink of that name, or behind the end of the
sink, is not used. Without a checkpoint, a partition that was added since the first start begins at its earliest record.
A micro-batch is saved when Spark plans the next one: if the query stopped before that, and its checkpoint is lost, the
records of that micro-batch are read again.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from forebay.client import Client, errors
from forebay.client.positions.position import PositionKey, SavedPosition
from forebay.client.positions.saver import TAKE_OVER_TRIES, PositionSaver
from forebay.client.positions.schedule import SaveSchedule
from forebay.client.positions.start import Bounds, SavedState, misfit, openings, state_of
from forebay.client.positions.telemetry import SaveTelemetry
from forebay.spark.options.checkpoint import CheckpointOptions
from forebay.spark.read.sink_view import SinkView

STOP_TIMEOUT_S: Final = 10.0
"""Time limit of the last save, when a query stops."""

SAVE_TIMEOUT_S: Final = 1.0
"""Time that a micro-batch waits for the save of the one before, unless the store failed before."""

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _SavedPosition:
    """Partition that is taken over."""

    bounds: Bounds
    own: int
    """Start without a saved position."""

    saved: SavedPosition | None
    version: str | None
    """Version of the saved position in the store."""


class SavedPositions:
    """Saved positions of one query. Used in the driver, by one thread."""

    def __init__(
        self,
        options: CheckpointOptions,
        sink: str,
        *,
        accepts_loss: bool,
    ) -> None:
        """``accepts_loss``: without a checkpoint, a saved position that does not fit is ignored."""
        self._options = options
        self._sink = sink
        self._accepts_loss = accepts_loss
        self._saver: PositionSaver | None = None
        self._started: dict[int, int] = {}
        """Start of each partition that this query owns."""

    def begin(self, client: Client, found: SinkView, default: Mapping[int, int]) -> dict[int, int]:
        """Return the start of a query without a checkpoint: saved positions, else those of ``default``.

        Raises ``PositionUnusable`` for a saved position that does not fit the sink, unless loss is accepted.
        """
        self._take_over(client, found, default, has_checkpoint=False)
        start = dict(self._started)
        self._log_start(start, default, "its start position")
        return start

    def resume(self, client: Client, found: SinkView, checkpoint: Mapping[int, int]) -> dict[int, int]:
        """Return the later position of the checkpoint and the store, in each partition.

        Takes over the partitions that the query does not own, so it reads the store only when it starts, and for
        partitions that were added.
        """
        owned = bool(self._started)
        self._take_over(client, found, checkpoint, has_checkpoint=True)
        later = {partition: max(offset, checkpoint.get(partition, 0)) for partition, offset in self._started.items()}
        if not owned:
            self._log_start(later, checkpoint, "Spark's checkpoint")
        return {**checkpoint, **later}

    def save(self, committed: Mapping[int, int]) -> None:
        """Save the end of a committed micro-batch; a failed save is tried again in the background.

        Raises ``PositionFenced`` if another query took the name over.
        """
        if self._saver is None:
            return
        self._saver.check(None)
        for partition in self._started.keys() & committed.keys():
            self._saver.moved(partition, committed[partition])
        if self._saver.statistics.failed_in_a_row:
            return
        try:
            self._saver.save(timeout_s=SAVE_TIMEOUT_S)
        except errors.PositionStoreUnavailable as error:
            _log.warning("a position is not saved yet sink=%s name=%s: %s", self._sink, self._options.name, error)

    def close(self) -> None:
        """Save what is not saved yet, and end; a failure is logged, because the query has ended."""
        if self._saver is None:
            return
        try:
            self._saver.close(STOP_TIMEOUT_S)
        except errors.ForebayError as error:
            _log.warning("the last position is not saved sink=%s name=%s: %s", self._sink, self._options.name, error)
        self._saver = None

    def _take_over(self, client: Client, found: SinkView, own: Mapping[int, int], *, has_checkpoint: bool) -> None:
        """Take over the partitions that the query does not own.

        Without a checkpoint, one that was added since the query first started begins at its earliest record.
        """
        saver = self._opened(client)
        new = {
            one.partition: Bounds(one.partition, found.incarnation, one.earliest, one.next)
            for one in found.stored
            if one.partition not in self._started
        }
        read = {partition: saver.read(self._key(partition)) for partition in new}
        known = {one for one, (saved, _) in read.items() if saved and saved.incarnation == found.incarnation}
        order = openings(new, known.union(self._started))
        places: dict[int, _SavedPosition] = {}
        starts: dict[int, int] = {}
        for one in sorted(order):
            bounds = new[one.partition]
            start = bounds.earliest if one.is_added and not has_checkpoint else own.get(one.partition, 0)
            places[one.partition] = _SavedPosition(bounds, start, *read[one.partition])
            starts[one.partition] = self._start(places[one.partition], has_checkpoint)
        for one in order:  # behind the last decision, so that a refusal leaves nothing behind
            self._started[one.partition] = self._claim(
                saver, places[one.partition], starts[one.partition], has_checkpoint
            )

    def _key(self, partition: int) -> PositionKey:
        return PositionKey(self._options.namespace, self._options.name, self._sink, partition)

    def _claim(self, saver: PositionSaver, place: _SavedPosition, start: int, has_checkpoint: bool) -> int:
        """Take a partition over; returns another start if its position was written meanwhile."""
        key = self._key(place.bounds.partition)
        for _ in range(TAKE_OVER_TRIES):
            try:
                saver.take_over(key, place.saved, place.version, incarnation=place.bounds.incarnation, start=start)
            except errors.PositionConflict:
                saved, version = saver.read(key)
                place = replace(place, saved=saved, version=version)
                start = self._start(place, has_checkpoint)
                continue
            return start
        raise errors.PositionFenced(
            f"{TAKE_OVER_TRIES} other queries named {key.consumer!r} took over partition {key.partition} meanwhile",
            facts={"partition": str(key.partition), "consumer": key.consumer},
        )

    def _start(self, place: _SavedPosition, has_checkpoint: bool) -> int:
        saved, bounds, own = place.saved, place.bounds, place.own
        if saved is None:
            return own
        state = state_of(saved, bounds)
        if state in (SavedState.PRESENT, SavedState.TRIMMED):  # the read itself reports trimmed records
            return max(saved.offset, own) if has_checkpoint else saved.offset
        if not has_checkpoint and not self._accepts_loss:
            raise misfit(saved, bounds, state, f"without it the query would start at {own}")
        _log.warning(
            "a saved position is not used: it is %s sink=%s name=%s partition=%d saved=%d start=%d",
            *(state.value, self._sink, self._options.name, bounds.partition, saved.offset, own),
        )
        return own

    def _log_start(self, start: Mapping[int, int], own: Mapping[int, int], what: str) -> None:
        """Log which of both positions is used."""
        saved = {partition: offset for partition, offset in start.items() if offset != own.get(partition, 0)}
        if saved:
            instead = {partition: own.get(partition, 0) for partition in saved}
            _log.warning(
                "the query starts at its saved position, instead of %s sink=%s name=%s saved=%s instead_of=%s",
                *(what, self._sink, self._options.name, saved, instead),
            )
        else:
            _log.info("the query starts at %s sink=%s name=%s", what, self._sink, self._options.name)

    def _opened(self, client: Client) -> PositionSaver:
        if self._saver is None:
            self._saver = PositionSaver(
                client.position_store(self._options.store),
                owner=uuid.uuid4().hex,
                schedule=SaveSchedule(),
                telemetry=SaveTelemetry(self._sink, self._options.name),
            )
        return self._saver
