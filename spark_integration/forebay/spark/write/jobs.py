"""Write jobs: what the tasks of a write need, resolved in the driver from one incarnation of the sink.

Partitions, the ticket and the version of the schema belong together, and to no other sink of that name. A batch, and
each micro-batch of a stream, is resolved when it begins. If its sink was recreated since, it is resolved again, so
that all of it goes into the new sink, with that sink's schema. From then on the tasks and the commit name the
incarnation: if the sink is recreated during the write, they are rejected, and nothing becomes visible.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeVar

from pyspark.sql.types import StructType

from forebay.client import errors
from forebay.spark.connection.broker import SINKS, SinkFacts, look_up
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.write import WriteOptions
from forebay.spark.write.record_schema import RowPlan
from forebay.spark.write.schema_registration import schema_of_write
from forebay.spark.write.transaction import begin_batch, begin_stream
from forebay.spark.write.writer import DeferredJob, WriteJob

TRIES: Final = 3
"""Number of attempts to begin a write while its sink is deleted and recreated."""
BEGIN_S: Final = 5.0
"""Time for which a micro-batch waits for its broker before it is known whether that is needed."""
_AWAY: Final = (errors.BrokerUnavailable, errors.DeadlineExceeded)
_GONE: Final = (errors.SinkReplaced, errors.SinkNotFound)

Job = TypeVar("Job", bound=WriteJob | DeferredJob)

log = logging.getLogger(__name__)


def batch_job(options: WriteOptions, plan: RowPlan, rows: StructType) -> WriteJob:
    """Return the job of a batch. Raises `ForebaySparkError`."""
    return _retried_if_recreated(options, lambda: _batch_job(options, plan, rows, look_up(options)))


def stream_job(options: WriteOptions, plan: RowPlan, rows: StructType) -> WriteJob | DeferredJob:
    """Return the job of a micro-batch; one that begins later if the broker of a known sink is unavailable.

    The ticket of a known sink is waited for up to `BEGIN_S`. The facts of an unknown one are required at once, for up
    to `connect_timeout_s`. Raises `ForebaySparkError`.
    """
    at_once_s = min(BEGIN_S, options.delivery_timeout_s)
    later_s = options.delivery_timeout_s - at_once_s

    def begin(facts: SinkFacts, patience_s: float) -> WriteJob:
        return _stream_job(options, plan, rows, facts, patience_s)

    def begin_later() -> WriteJob:
        return _retried_if_recreated(options, lambda: begin(SINKS.look_up(options), later_s))

    def begin_or_defer() -> WriteJob | DeferredJob:
        facts = SINKS.look_up(options)  # outside of the try: without facts the write fails now
        try:
            return begin(facts, at_once_s)
        except ForebaySparkError as error:
            if not isinstance(error.__cause__, _AWAY) or later_s <= 0:
                raise
            return DeferredJob(options, begin_later)

    return _retried_if_recreated(options, begin_or_defer)


def _batch_job(options: WriteOptions, plan: RowPlan, rows: StructType, facts: SinkFacts) -> WriteJob:
    run = begin_batch(options, facts.incarnation)
    return WriteJob(options, plan, facts, run, schema_of_write(options, plan, rows, facts.incarnation))


def _stream_job(
    options: WriteOptions, plan: RowPlan, rows: StructType, facts: SinkFacts, patience_s: float
) -> WriteJob:
    run = begin_stream(options, facts.incarnation, patience_s=patience_s)
    return WriteJob(options, plan, facts, run, schema_of_write(options, plan, rows, facts.incarnation))


def _retried_if_recreated(options: WriteOptions, resolve: Callable[[], Job]) -> Job:
    """Return the result of ``resolve``, repeated if the sink was recreated; nothing is written before."""
    for _ in range(TRIES - 1):
        try:
            return resolve()
        except ForebaySparkError as error:
            if not isinstance(error.__cause__, _GONE) or not SINKS.invalidate(options.target, error.__cause__):
                raise
            log.warning("sink was deleted since it was written to, and is looked up again sink=%s", options.target.sink)
    return resolve()
