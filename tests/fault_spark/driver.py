"""A Spark driver in a process of its own: one query that writes numbered rows into a sink, for others to kill.

    python -m tests.fault_spark.driver '{"endpoint": …, "checkpoint": …, …}'

The source is Spark's ``rate-micro-batch``: micro-batch *n* is always the numbers from ``n * rows`` on, also when it is
run again. The query has Spark's own id from its checkpoint. When it fails it is started again here, as a supervisor
would; an event says what ended it. Every line that this process prints is a JSON object, an ``Event``. It ends when its
standard input does, so that it never outlives a test that was killed.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from forebay.spark.session import local_session

WIDTH: Final = 120
"""Bytes of a row."""

SLICE: Final = 50
"""Rows between two pauses of a source."""


@dataclass(frozen=True, slots=True)
class Work:
    """Parameters of a driver."""

    endpoint: str
    """Of the broker."""

    checkpoint: str
    """Checkpoint folder of the query."""

    folder: str
    """For what Spark writes besides."""

    sink: str = "orders"
    source: str = ""
    """Sink that the query copies, as a subscription of the name of its own sink; empty for the numbers."""

    master: str = "local[2]"
    delivery: str = "exactly_once"
    rows: int = 1_000
    """Numbers of a micro-batch."""

    tasks: int = 3
    pause_ms: int = 0
    """Delay of the source after each slice, so that a write takes a while."""

    first_attempt_hangs: bool = False
    """Of the first task the first attempt gets so far that it stages something, and ends when it is killed."""

    to_the_end: bool = False
    """Run what is unfinished and one micro-batch more, then end; otherwise continue until killed."""

    restarts: bool = True
    """Start a query that failed again, after telling."""

    conf: tuple[tuple[str, str], ...] = ()
    """More settings of Spark."""


@dataclass(frozen=True, slots=True)
class Event:
    """Report of a driver."""

    what: str
    """``started``, ``failed`` or ``ended``."""

    why: str = ""
    """Failure that ended a query."""


def tell(event: Event) -> None:
    """Print a line, whole."""
    os.write(1, json.dumps(asdict(event)).encode() + b"\n")


def main(work: Work) -> int:
    """Run; returns the exit code."""
    threading.Thread(target=_end_with_input, name="input", daemon=True).start()
    conf = {"spark.master": work.master, "spark.sql.warehouse.dir": f"{work.folder}/warehouse", **dict(work.conf)}
    with warnings.catch_warnings():
        # PySpark says that it does not know the pandas that is installed; nothing here uses pandas.
        warnings.simplefilter("ignore", FutureWarning)
        spark = local_session("faults", tries=8, conf=conf)
    while True:
        query = start(spark, work)
        tell(Event("started"))
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            tell(Event("failed", str(error)))
            if work.restarts:
                continue
            return 1
        tell(Event("ended"))
        spark.stop()
        return 0


def start(spark: SparkSession, work: Work) -> StreamingQuery:
    """Start the query."""
    rows = copied(spark, work) if work.source else numbers(spark, work)
    writer = (
        rows.writeStream.format("forebay")
        .options(endpoint=work.endpoint, sink=work.sink, delivery=work.delivery, page_bytes="4096", linger_ms="0")
        .option("checkpointLocation", work.checkpoint)
    )
    return (writer.trigger(availableNow=True) if work.to_the_end else writer).start()


def copied(spark: SparkSession, work: Work) -> DataFrame:
    """The records of another sink, a few of its batches at a time."""
    source = spark.readStream.format("forebay").options(endpoint=work.endpoint, sink=work.source)
    some = source.options(subscription=work.sink, maxRecordsPerTrigger=str(3 * work.rows))
    return some.load().select("value", "key")


def numbers(spark: SparkSession, work: Work) -> DataFrame:
    """The source: a number is its row's value, filled up with points, and spread by key over the sink's partitions.

    Where it is slow, attempts after the first of a task leave a file behind, named by task and attempt.
    """
    pause_s = work.pause_ms / 1000
    hangs = work.first_attempt_hangs
    folder = Path(work.folder)

    def linger(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        attempt = (context.partitionId(), context.attemptNumber()) if context is not None else (0, 0)
        if attempt != (0, 0):
            (folder / "attempt-{}-{}".format(*attempt)).touch()
        for batch in batches:
            for first in range(0, batch.num_rows, SLICE):
                yield batch.slice(first, SLICE)
                time.sleep(pause_s)
                while hangs and attempt == (0, 0):
                    yield batch.slice(0, 0)
                    time.sleep(0.05)

    source = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=work.rows, numPartitions=work.tasks)
    rows = source.load().selectExpr(
        f"rpad(cast(value as string), {WIDTH}, '.') value", "cast(value % 64 as string) key"
    )
    return rows.mapInArrow(linger, "value string, key string") if pause_s or hangs else rows


def _end_with_input() -> None:
    while os.read(0, 1024):  # a lock of Python's own reader would be in the way of a clean end
        pass
    os._exit(1)


def work_of(text: str) -> Work:
    """Read what the command line says."""
    given = json.loads(text)
    given["conf"] = tuple((name, value) for name, value in given["conf"])
    return Work(**given)


if __name__ == "__main__":
    sys.exit(main(work_of(sys.argv[1])))
