"""Progress of Spark queries together with the lag at the broker.

    spark.streams.addListener(QueryProgress(["orders"], print))

PySpark supports no custom metrics for Python data sources, and their name in Spark's progress is the address of an
object. Therefore a micro-batch is matched by the id of its query, which is part of the producer's name at the broker.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.streaming.listener import StreamingQueryListener

from forebay.client import Client, errors
from forebay.spark.connection.broker import connect
from forebay.spark.options.write import Target, write_options

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

PATIENCE_S: Final = 2.0
"""Time limit of a call, because Spark's listener bus waits; an unavailable broker is reported."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SinkProgress:
    """State of one sink just after a micro-batch."""

    sink: str
    last_epoch: int | None
    """Last committed micro-batch of the query; None before the first, and for at-least-once writes."""

    staged_records: int
    """Staged records of all queries that await a commit."""

    pending: int
    """Unsettled records of the slowest subscription: the lag."""

    pending_age_s: float
    """Age of the oldest unsettled record."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of one micro-batch of a query."""

    query_id: str
    name: str | None
    batch_id: int
    rows: int
    """Number of input rows."""

    rows_per_s: float
    duration_ms: int
    """Duration of the trigger."""

    sinks: tuple[SinkProgress, ...]
    """States of the sinks; sinks whose broker did not answer are missing."""


class QueryProgress(StreamingQueryListener):
    """Listener that reports every micro-batch with the state of the given sinks. Runs in the driver."""

    def __init__(
        self, sinks: Sequence[str], report: Callable[[Progress], None], options: Mapping[str, str] | None = None
    ) -> None:
        """Report the given sinks; ``options`` are those of ``format("forebay")``. Raises `ForebaySparkError`."""
        self._targets: list[Target] = [
            write_options({**(options or {}), "sink": sink}, os.environ).target for sink in sinks
        ]
        self._report = report

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Ignore the start of a query; called by Spark."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Ignore an idle query; called by Spark."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Ignore the end of a query; called by Spark."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Report a micro-batch with the state of the sinks; called by Spark after each micro-batch."""
        found = event.progress
        sinks = [state for target in self._targets if (state := _state(target, str(found.id))) is not None]
        self._report(
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
        log.warning("sink state is unavailable sink=%s reason=%s", target.sink, error.reason)
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
