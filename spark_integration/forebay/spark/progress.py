"""Spark's progress and the broker's lag, told together.

    spark.streams.addListener(QueryProgress(["orders"], print))

PySpark gives a data source written in Python no metrics of its own, and its name in Spark's progress is that of an
object in memory. So each micro-batch is joined by the id of its query: the broker knows the producers of a sink by it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.streaming.listener import StreamingQueryListener

from forebay.client import Client, errors
from forebay.spark.broker import connect
from forebay.spark.options.write import Target, write_options

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

PATIENCE_S: Final = 2.0
"""Spark's listener bus waits for this: a broker that is away is told as that."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SinkProgress:
    """One sink, just after a micro-batch."""

    sink: str
    last_epoch: int | None
    """The last micro-batch of the query that is visible; None before the first, and for a write at least once."""

    staged_records: int
    """Records of any query that wait for a commit."""

    pending: int
    """Records that the sink's slowest subscription has still to settle: the lag."""

    pending_age_s: float
    """Age of the oldest of them."""


@dataclass(frozen=True, slots=True)
class Progress:
    """One micro-batch of a query."""

    query_id: str
    name: str | None
    batch_id: int
    rows: int
    """Rows that came in."""

    rows_per_s: float
    duration_ms: int
    """Of the whole trigger."""

    sinks: tuple[SinkProgress, ...]
    """Those that were asked for; without those whose broker did not answer."""


class QueryProgress(StreamingQueryListener):
    """Tells of every micro-batch, with the state of the sinks that are named. Lives in the driver."""

    def __init__(
        self, sinks: Sequence[str], tell: Callable[[Progress], None], options: Mapping[str, str] | None = None
    ) -> None:
        """``options`` are those of ``format("forebay")``, above all ``endpoint``. Raises `ForebaySparkError`."""
        self._targets: list[Target] = [
            write_options({**(options or {}), "sink": sink}, os.environ).target for sink in sinks
        ]
        self._tell = tell

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing is to be told yet; Spark calls it."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing has changed; Spark calls it."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Nothing is left to be told; Spark calls it."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Ask the broker and tell; Spark calls it, after each micro-batch."""
        found = event.progress
        sinks = [state for target in self._targets if (state := _state(target, str(found.id))) is not None]
        self._tell(
            Progress(
                query_id=str(found.id),
                name=found.name,
                batch_id=found.batchId,
                rows=found.numInputRows,
                rows_per_s=found.processedRowsPerSecond,
                duration_ms=found.durationMs.get("triggerExecution", 0),
                sinks=tuple(sinks),
            )
        )


def _state(target: Target, query_id: str) -> SinkProgress | None:
    try:
        with connect(target, patience_s=PATIENCE_S) as client:
            return sink_progress(client, target.sink, query_id)
    except errors.ForebayError as error:
        log.warning("sink could not be asked sink=%s reason=%s", target.sink, error.reason)
        return None


def sink_progress(client: Client, sink: str, query_id: str) -> SinkProgress:
    """Return the state of a sink for one query. Raises `ForebayError`."""
    stats = client.sinks.stats(sink)
    epochs = [one.last_epoch for one in client.epochs.list(sink) if one.producer.startswith(f"{query_id}:")]
    lanes = [list(one.partitions) for one in stats.subscriptions]
    return SinkProgress(
        sink=sink,
        last_epoch=max((epoch for epoch in epochs if epoch is not None), default=None),
        staged_records=stats.staged_records,
        pending=max((sum(part.pending for part in lane) for lane in lanes), default=0),
        pending_age_s=max((part.pending_age_s for lane in lanes for part in lane), default=0.0),
    )
