"""Epochs of tasks, derived from the driver's run and from Spark's task properties.

    a stream             producer = query id + write name, epoch = batch id, run = the query's run
    a batch              producer = run = an id of its own, epoch 0
    a batch with         as a stream: a repeat of the same micro-batch is written once
      epoch_from_query

A query id is stored in the checkpoint, so that the producer is the same after a restart, and a repeated micro-batch has
the same epoch. A token names one attempt of a task, because Spark reuses its attempt numbers after a restart.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from forebay.client import EpochCheck, Stage, StagedPart, StagedSummary
from forebay.spark.application import application_id
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.write import WRITE_NAME_MAX, WriteOptions
from forebay.spark.telemetry import BATCH_ID, QUERY_ID
from forebay.spark.write.content import RowContent

RUN_ID: Final = "spark.jobGroup.id"
"""Job group of a query's jobs, which is the id of its run; other run properties are not set in tasks."""

_HASH_BYTES: Final = 8
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class WriteRun:
    """Run of a write, created by the driver before any task starts. Pickled."""

    ticket: int
    """Ticket; of two runs the one with the higher ticket is newer."""

    batch: str | None
    """Id of a batch; None if the query determines the epoch."""

    incarnation: str = ""
    """Incarnation of the sink; in another one the run stages and commits nothing."""


@dataclass(frozen=True, slots=True)
class StagedAttempt:
    """Stage of one task attempt, sent to the driver with the commit message."""

    stage: Stage
    """Epoch and token."""

    parts: tuple[StagedPart, ...] = ()
    """Pages and records by partition; empty if there is a summary."""

    summary: StagedSummary | None = None
    """Summary of the parts if there are many, because thousands of tasks send this to the driver."""

    already_committed: bool = False
    """The epoch was committed before; the task only counted its rows."""

    content: RowContent | None = None
    """Content of all rows of the task; None if they were not counted."""

    check: EpochCheck = EpochCheck.RECORDS
    """Comparison with the epoch if it is already committed."""

    trace: str = ""
    """Context of the task's span as a W3C ``traceparent``; empty without one."""


def own_id() -> str:
    """Return a new id for a batch."""
    return f"batch-{uuid.uuid4().hex}"


def write_name(options: WriteOptions) -> str:
    """Return the write name of the query; the default is the sink's name, shortened if necessary."""
    name = options.write_name or options.target.sink
    if len(name) <= WRITE_NAME_MAX:
        return name
    mark = blake2b(name.encode(), digest_size=_HASH_BYTES).hexdigest()
    return f"{name[: WRITE_NAME_MAX - len(mark) - 1]}-{mark}"


def stage_of(run: WriteRun, options: WriteOptions, local_property: Callable[[str], str | None]) -> Stage:
    """Return the stage of one attempt, with its own token. Raises `ForebaySparkError` outside of a query."""
    if run.batch is not None:
        return Stage(
            producer=run.batch,
            epoch=0,
            run=run.batch,
            ticket=run.ticket,
            incarnation=run.incarnation,
            application=application_id(),
        )
    query, batch, spark_run = (local_property(name) or "" for name in (QUERY_ID, BATCH_ID, RUN_ID))
    if not (_UUID.fullmatch(query) and batch.isdecimal()):
        raise ForebaySparkError(
            "Spark names no query and no micro-batch for this write.",
            "Use epoch_from_query only for writes inside of foreachBatch, and on the thread that it is called on.",
        )
    if not _UUID.fullmatch(spark_run):
        raise ForebaySparkError(
            f"The job group of this write is {spark_run!r}, and not the run of its query.",
            "Set no job group around writes to Forebay; or leave epoch_from_query out.",
        )
    name = write_name(options)
    return Stage(
        producer=f"{query}:{name}",
        write_name=name,
        epoch=int(batch),
        run=spark_run,
        ticket=run.ticket,
        takeover=options.takeover,
        incarnation=run.incarnation,
        application=application_id(),
    )
