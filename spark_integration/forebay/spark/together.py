"""Several DataFrames into several sinks of one broker, visible at one instant.

    def write(batch, batch_id):
        write_together([Write(batch, "orders"), Write(batch.where("total > 1000"), "large-orders")], from_query=True)

    stream.writeStream.foreachBatch(write).start()

Each DataFrame is staged by a job of its own, and one commit names what all of them staged. With ``from_query`` the
epoch is that of the micro-batch, so a batch that is run again is written once.
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
from forebay.spark.write.epochs import Staged
from forebay.spark.write.jobs import batch_job
from forebay.spark.write.record_schema import plan_rows
from forebay.spark.write.writer import WriteJob, run_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STAGED: Final = pa.schema([pa.field("staged", pa.binary())])


@dataclass(frozen=True, slots=True)
class Write:
    """One DataFrame, and the sink that it goes to."""

    frame: DataFrame
    sink: str
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of ``format("forebay")`` for this write; two writes to one sink need two of ``write_name``."""


def write_together(writes: Sequence[Write], *, from_query: bool, endpoint: str | None = None) -> CommittedEpochs:
    """Stage every write, then commit all of them. Returns where the records stand.

    ``from_query`` takes the epoch from the micro-batch that calls this; without it the writes are a batch of their own.
    Raises `ForebaySparkError`; then nothing of any write is visible, unless the text says that it is not known.
    """
    every = [_options(write, from_query=from_query, endpoint=endpoint) for write in writes]
    if not every:
        raise ForebaySparkError("There is nothing to write.", "Name at least one write.")
    done: list[tuple[Target, list[Staged]]] = []
    with ExitStack() as undo:
        for write, options in zip(writes, every, strict=True):
            plan = plan_rows(write.frame.schema, options.rows, options.partition_by, options.arrow_dictionary)
            job = batch_job(options, plan, write.frame.schema)
            assert job.run is not None, "the write is exactly once"
            undo.callback(transaction.close, options.target, job.run)  # nobody knows the tokens of failed attempts
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
            f"The write to {write.sink!r} is at least once, and cannot be committed with others.",
            "Leave option delivery out, or write that DataFrame by itself.",
        )
    return options


def _staged(write: Write, job: WriteJob) -> list[Staged]:
    """Run the job that stages one DataFrame; returns what the attempts that Spark accepted have staged."""

    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        written = run_task(job, batches)
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(written.staged)], pa.binary())], schema=STAGED)

    rows = write.frame.mapInArrow(stage, "staged binary").collect()
    return [pickle.loads(row["staged"]) for row in rows]
