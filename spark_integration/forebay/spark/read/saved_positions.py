"""Positions of a stream in a store beside Spark's checkpoint, for the day that the checkpoint is lost.

Records below a saved position were in a committed micro-batch, as those below the position of the checkpoint were.
So the higher one of both is right, in each partition. A position of another sink of that name, or beyond the end of the
sink, is not used. Without a checkpoint, a partition that was added since the first start begins at its earliest record.
A micro-batch is saved when Spark plans the next one: if the query stopped before that, and its checkpoint is lost, the
records of that micro-batch are read again.

The start of a query is decided when Spark asks for it, and saved when the start of the first micro-batch is known.
Until that one is committed, Spark asks again after each restart, and ``latest`` is another offset then.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from forebay.client import Client, errors
from forebay.client.positions.position import PositionKey, SavedPosition
from forebay.client.positions.saver import TAKE_OVER_TRIES, PositionSaver
from forebay.client.positions.schedule import SaveSchedule
from forebay.client.positions.start import Bounds, SavedState, misfit, openings, state_of
from forebay.client.positions.store import PositionStore
from forebay.client.positions.telemetry import SaveTelemetry
from forebay.spark.options.checkpoint import CheckpointOptions
from forebay.spark.read.sink_view import SinkView, view

STOP_TIMEOUT_S: Final = 10.0
"""Time limit of the last save, when a query stops."""

SAVE_TIMEOUT_S: Final = 1.0
"""Time that a micro-batch waits for the save of the one before, unless the store failed before."""

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Place:
    """Partition that the query does not own."""

    bounds: Bounds
    is_added: bool
    """It was added to the sink since the query first started."""

    saved: SavedPosition | None
    version: str | None
    """Version of the saved position in the store."""

    @property
    def state(self) -> SavedState:
        """State of the saved position, compared with the partition."""
        return state_of(self.saved, self.bounds)

    def usable(self) -> int | None:
        """Return the saved offset; None if there is none, or it does not fit the partition."""
        if self.saved is None or self.state not in (SavedState.PRESENT, SavedState.TRIMMED):
            return None
        return self.saved.offset  # the read itself reports trimmed records


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
        self._store: PositionStore | None = None
        self._saver: PositionSaver | None = None
        """Open if the store is."""
        self._is_new = False
        """The start of the query was decided without a checkpoint."""
        self._started: dict[int, int] = {}
        """Start of each partition that this query owns."""

    def begin(
        self, client: Client, found: SinkView, default: Callable[[frozenset[int]], Mapping[int, int]]
    ) -> dict[int, int]:
        """Return the start of a query without a checkpoint: saved positions, else those of ``default``.

        ``default`` is called with the partitions whose start it decides, and may refuse one; not if there are none.
        Saves nothing: the first micro-batch may be planned already, and may begin elsewhere. Raises
        ``PositionUnusable`` for a saved position that does not fit the sink, unless loss is accepted.
        """
        places = self._places(client, found, self._opened(client))
        saved = {place.bounds.partition: at for place in places if (at := place.usable()) is not None}
        added = {place.bounds.partition: place.bounds.earliest for place in places if place.is_added}
        start = {**added, **saved}
        if asked := frozenset(place.bounds.partition for place in places) - start.keys():
            own = default(asked)
            start |= {partition: own.get(partition, 0) for partition in asked}
        for place in sorted(places, key=lambda place: place.bounds.partition):
            self._check_fits(place, start[place.bounds.partition])
        if saved:
            _log.warning(
                "the query starts at its saved position, instead of its start position sink=%s name=%s saved=%s",
                *(self._sink, self._options.name, saved),
            )
        else:
            _log.info("the query starts at its start position sink=%s name=%s", self._sink, self._options.name)
        self._is_new = True
        return dict(sorted(start.items()))

    def resume(self, client: Client, found: SinkView, checkpoint: Mapping[int, int]) -> dict[int, int]:
        """Return the later position of the checkpoint and the store, in each partition.

        ``checkpoint`` is the start of a micro-batch, also of the first one. Takes over the partitions that the query
        does not own, so it reads the store only when the query starts, and for partitions that were added.
        """
        owned = bool(self._started)
        self._take_over(client, found, checkpoint)
        later = {partition: max(offset, checkpoint.get(partition, 0)) for partition, offset in self._started.items()}
        if not owned:
            self._log_start(later, checkpoint)
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
        """Save what is not saved yet and close the store; a failure is logged: the query has ended."""
        saver, store, self._saver, self._store = self._saver, self._store, None, None
        if saver is None or store is None:
            return
        try:
            saver.close(STOP_TIMEOUT_S)
        except errors.ForebayError as error:
            _log.warning("the last position is not saved sink=%s name=%s: %s", self._sink, self._options.name, error)
        finally:
            store.close()

    def _places(self, client: Client, found: SinkView, saver: PositionSaver) -> list[_Place]:
        """Return the partitions that the query does not own, in the order in which they are taken over."""
        new = {
            one.partition: Bounds(one.partition, found.incarnation, one.earliest, one.next)
            for one in found.stored
            if one.partition not in self._started
        }
        read = {partition: saver.read(self._key(partition)) for partition in new}
        known = {one for one, (saved, _) in read.items() if saved and saved.incarnation == found.incarnation}
        return [
            self._not_older(client, _Place(new[one.partition], one.is_added, *read[one.partition]))
            for one in openings(new, known.union(self._started))
        ]

    def _not_older(self, client: Client, place: _Place) -> _Place:
        """Return a partition with bounds that were read after its saved position.

        The query that saved it may still run: it has read, and saved, records that are newer than the bounds.
        """
        if place.state is not SavedState.AHEAD:
            return place
        found = view(client, self._sink)
        if found.incarnation != place.bounds.incarnation:
            return place
        [one] = [one for one in found.stored if one.partition == place.bounds.partition]
        return replace(place, bounds=replace(place.bounds, earliest=one.earliest, end=one.next))

    def _take_over(self, client: Client, found: SinkView, own: Mapping[int, int]) -> None:
        """Take over the partitions that the query does not own; all are read before the first write."""
        saver = self._opened(client)
        for place in self._places(client, found, saver):
            partition = place.bounds.partition
            self._started[partition] = self._claim(client, saver, place, own.get(partition, 0))

    def _key(self, partition: int) -> PositionKey:
        return PositionKey(self._options.namespace, self._options.name, self._sink, partition)

    def _claim(self, client: Client, saver: PositionSaver, place: _Place, own: int) -> int:
        """Take a partition over at the later of ``own`` and its saved position; returns that offset."""
        key = self._key(place.bounds.partition)
        for _ in range(TAKE_OVER_TRIES):
            usable = place.usable()
            start = own if usable is None else max(usable, own)
            try:
                saver.take_over(key, place.saved, place.version, incarnation=place.bounds.incarnation, start=start)
            except errors.PositionConflict:  # written meanwhile
                saved, version = saver.read(key)
                place = self._not_older(client, replace(place, saved=saved, version=version))
                continue
            if usable is None and place.saved is not None:
                _log.warning(
                    "a saved position is not used: it is %s sink=%s name=%s partition=%d saved=%d start=%d",
                    *(place.state.value, self._sink, self._options.name, key.partition, place.saved.offset, start),
                )
            return start
        raise errors.PositionFenced(
            f"{TAKE_OVER_TRIES} other queries named {key.consumer!r} took over partition {key.partition} concurrently",
            facts={"partition": str(key.partition), "consumer": key.consumer},
        )

    def _check_fits(self, place: _Place, start: int) -> None:
        if place.saved is not None and place.usable() is None and not self._accepts_loss:
            raise misfit(place.saved, place.bounds, place.state, f"without it the query would start at {start}")

    def _log_start(self, start: Mapping[int, int], checkpoint: Mapping[int, int]) -> None:
        """Log which of both positions is used."""
        saved = {partition: offset for partition, offset in start.items() if offset != checkpoint.get(partition, 0)}
        if saved:
            instead = {partition: checkpoint.get(partition, 0) for partition in saved}
            _log.warning(
                "the query starts at its saved position, instead of Spark's checkpoint sink=%s name=%s saved=%s"
                " instead_of=%s",
                *(self._sink, self._options.name, saved, instead),
            )
        elif not self._is_new:
            _log.info("the query starts at Spark's checkpoint sink=%s name=%s", self._sink, self._options.name)

    def _opened(self, client: Client) -> PositionSaver:
        if self._saver is None:
            self._store = client.position_store(self._options.store)
            self._saver = PositionSaver(
                self._store,
                owner=uuid.uuid4().hex,
                schedule=SaveSchedule(),
                telemetry=SaveTelemetry(self._sink, self._options.name),
            )
        return self._saver
