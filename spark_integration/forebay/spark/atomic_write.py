"""Atomic write of several DataFrames to several sinks of one broker.

    def write(batch, batch_id):
        write_atomically([Write(batch, "orders"), Write(batch.where("total > 1000"), "large-orders")], from_query=True)

    stream.writeStream.foreachBatch(write).start()

Each DataFrame is staged by its own job, and one commit makes all of them visible. With ``from_query`` the epoch is that
of the micro-batch, so that a repeated micro-batch is written once.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from forebay.client import CommittedEpochs
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.write import Delivery, Target, WriteOptions, write_options
from forebay.spark.write import transaction
from forebay.spark.write.epochs import StagedAttempt
from forebay.spark.write.jobs import batch_job
from forebay.spark.write.record_schema import plan_of
from forebay.spark.write.writer import WriteJob, run_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STAGED: Final = pa.schema([pa.field("staged", pa.binary())])


@dataclass(frozen=True, slots=True)
class Write:
    """DataFrame and the sink to write it to."""

    frame: DataFrame
    sink: str
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of ``format("forebay")`` for this write.

    Two writes to one sink require different values of ``write_name``; all writes of a call the same endpoint and
    credentials.
    """


def write_atomically(writes: Sequence[Write], *, from_query: bool, endpoint: str | None = None) -> CommittedEpochs:
    """Stage all writes, then commit them atomically; returns the positions of the records.

    ``from_query`` takes the epoch from the calling micro-batch; without it the writes are an independent batch. Raises
    `ForebaySparkError`; then no write is visible, unless the text states that the outcome is unknown.
    """
    every = [_options(write, from_query=from_query, endpoint=endpoint) for write in writes]
    if not every:
        raise ForebaySparkError("The list of writes is empty.", "Pass at least one Write.")
    _check_one_broker([options.target for options in every])
    done: list[tuple[Target, list[StagedAttempt]]] = []
    with ExitStack() as undo:
        for write, options in zip(writes, every, strict=True):
            plan = plan_of(write.frame.schema, options)
            job = batch_job(options, plan, write.frame.schema)
            assert job.run is not None, "the write is exactly once"
            undo.callback(transaction.close, options.target, job.run)  # the tokens of failed attempts are unknown here
            staged = _staged(write, job)
            undo.callback(transaction.abort, options.target, staged)
            done.append((options.target, staged))
        committed = transaction.commit(done, patience_s=every[0].delivery_timeout_s)
        undo.pop_all()
    return committed


def _options(write: Write, *, from_query: bool, endpoint: str | None) -> WriteOptions:
    given = {**write.options, "sink": write.sink}
    if endpoint is not None:
        given.setdefault("endpoint", endpoint)
    if from_query:
        given["epoch_from_query"] = "true"
    options = write_options(given, os.environ)
    if options.delivery is not Delivery.EXACTLY_ONCE:
        raise ForebaySparkError(
            f"The write to {write.sink!r} is at least once, and cannot be committed together with others.",
            "Leave option delivery out, or write that DataFrame separately.",
        )
    return options


def _check_one_broker(targets: Sequence[Target]) -> None:
    """Raise `ForebaySparkError` unless one connection can commit all writes: the first one's."""
    first = targets[0]
    for target in targets[1:]:
        if set(target.endpoints) != set(first.endpoints):
            raise ForebaySparkError(
                f"The writes name different brokers: sink {first.sink!r} at {','.join(first.endpoints)},"
                f" sink {target.sink!r} at {','.join(target.endpoints)}.",
                "Name the same endpoint for all of them, with write_atomically(..., endpoint='host:port'); write to "
                "sinks of another broker in a call of its own.",
            )
        if target.credentials != first.credentials:
            raise ForebaySparkError(
                f"The writes name different credentials: the commit of sink {target.sink!r} would use those of sink"
                f" {first.sink!r}.",
                "Give all of them the same options of TLS and token.",
            )


def _staged(write: Write, job: WriteJob) -> list[StagedAttempt]:
    """Run the staging job of one DataFrame; returns the stages of the attempts that Spark accepted."""

    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        written = run_task(job, batches)
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(written.staged)], pa.binary())], schema=STAGED)

    rows = write.frame.mapInArrow(stage, "staged binary").collect()
    return [pickle.loads(row["staged"]) for row in rows]
