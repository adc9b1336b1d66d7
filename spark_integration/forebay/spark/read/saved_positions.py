"""Positions of a stream in a store beside Spark's checkpoint, for the day that the checkpoint is lost.

Records below a saved position were in a committed micro-batch, as those below the position of the checkpoint were.
So the higher one of both is right, in each partition. A position of another sink of that name, or behind the end of the
sink, is not used. A micro-batch is saved when Spark plans the next one: if the query stopped before that, and its
checkpoint is lost, the records of that micro-batch are read again.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from typing import Final

from forebay.client import Client, errors
from forebay.client.positions.position import PositionKey, SavedPosition
from forebay.client.positions.saver import PositionSaver
from forebay.client.positions.schedule import SaveSchedule
from forebay.client.positions.start import Bounds, SavedState, misfit, state_of
from forebay.client.positions.telemetry import SaveTelemetry
from forebay.spark.options.checkpoint import CheckpointOptions
from forebay.spark.read.sink_view import SinkView

STOP_TIMEOUT_S: Final = 10.0
"""Time limit of the last save, when a query stops."""

SAVE_TIMEOUT_S: Final = 1.0
"""Time that a micro-batch waits for the save of the one before, unless the store failed before."""

TAKE_OVER_TRIES: Final = 10
"""Number of attempts to take a partition over while other queries do the same."""

_log: Final = logging.getLogger(__name__)


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
        self._tell(start, default, "its start position")
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
            self._tell(later, checkpoint, "Spark's checkpoint")
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
        for one in found.stored:
            if one.partition not in self._started:
                bounds = Bounds(one.partition, found.incarnation, one.earliest, one.next)
                self._started[one.partition] = self._start(client, bounds, own.get(one.partition, 0), has_checkpoint)

    def _start(self, client: Client, bounds: Bounds, own: int, has_checkpoint: bool) -> int:
        """Decide the start of a partition, and take it over."""
        saver = self._opened(client)
        key = PositionKey(self._options.namespace, self._options.name, self._sink, bounds.partition)
        for _ in range(TAKE_OVER_TRIES):
            saved, version = saver.read(key)
            start = own if saved is None else self._later(saved, bounds, own, has_checkpoint)
            try:
                saver.take_over(key, saved, version, incarnation=bounds.incarnation, start=start)
            except errors.PositionConflict:
                continue
            return start
        raise errors.PositionFenced(
            f"{TAKE_OVER_TRIES} other queries named {key.consumer!r} took over partition {key.partition} meanwhile",
            facts={"partition": str(key.partition), "consumer": key.consumer},
        )

    def _later(self, saved: SavedPosition, bounds: Bounds, own: int, has_checkpoint: bool) -> int:
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

    def _tell(self, start: Mapping[int, int], own: Mapping[int, int], what: str) -> None:
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
