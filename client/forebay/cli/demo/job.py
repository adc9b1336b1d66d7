"""Spark process of the demo: reads the input folder as a stream, cleans rows, writes to Forebay.

    python -m forebay.cli.demo.job --folder DIR --checkpoint DIR --endpoint HOST:PORT --sink NAME

It reports on standard output, one JSON object per line. It ends when its standard input has ended and all files of
the folder are written. A failed query is restarted from its checkpoint, a bounded number of times.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, MapType, StringType, StructField, StructType, TimestampType

from forebay.cli.demo.processes.parent_input import ParentInput
from forebay.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

RESTARTS_MAX: Final = 10
"""Maximum number of restarts of a failed query."""

FILES_PER_BATCH: Final = 40
"""Maximum number of files per micro-batch."""

SESSION: Final = {
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",  # of two field names that become equal, the later field is kept
    # The optimising compiler does not pay off within half a minute: without it Spark starts in two thirds of the time.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""Settings of the Spark session."""

SCHEMA: Final = StructType(
    [
        StructField("id", StringType(), nullable=False),
        StructField("source", StringType()),
        StructField("sequence", LongType()),
        StructField("entity", StringType()),
        StructField("produced_at", TimestampType()),
        StructField("data", MapType(StringType(), StringType())),
    ]
)
"""Line of the input folder; fields of any type are read as text."""


def clean(rows: DataFrame) -> DataFrame:
    """Convert rows to records: `value` (JSON), `key` and `event_time`; one record per row.

    Field names become lower-case words joined by underscores, empty fields are removed, and numbers are added as
    numbers beside the text, so that the remote system can compute with them.
    """
    named = F.transform_keys("data", lambda name, _: F.lower(F.regexp_replace(name, "[^A-Za-z0-9]+", "_")))
    filled = F.map_filter(named, lambda _, text: text.isNotNull() & (F.trim(text) != ""))
    numbers = F.map_filter(
        F.transform_values("fields", lambda _, text: text.try_cast("double")),
        lambda _, number: number.isNotNull(),
    )
    return (
        rows.withColumn("fields", filled)
        .withColumn("numbers", numbers)
        .select(
            F.to_json(F.struct("id", "source", "sequence", "entity", "produced_at", "fields", "numbers")).alias(
                "value"
            ),
            F.col("entity").alias("key"),
            F.col("produced_at").alias("event_time"),
        )
    )


def start(spark: SparkSession, options: argparse.Namespace) -> StreamingQuery:
    """Start the query, or continue from its checkpoint."""
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", FILES_PER_BATCH).json(str(options.folder))
    return (
        clean(rows)
        .writeStream.format("forebay")
        .queryName("demo")
        .option("endpoint", options.endpoint)
        .option("sink", options.sink)
        .option("checkpointLocation", str(options.checkpoint))
        .trigger(processingTime="250 milliseconds")
        .start()
    )


@dataclass(slots=True)
class Written:
    """Rows of the batches that Spark has finished."""

    rows: int = 0
    """Number of rows in all batches."""

    seen: set[int] = field(default_factory=set)
    """Numbers of the counted batches; a batch that is repeated counts once."""

    def add(self, query: StreamingQuery) -> bool:
        """Add the query's recent progress; return True if there was any."""
        before = len(self.seen)
        for progress in query.recentProgress:
            if progress.numInputRows and progress.batchId not in self.seen:
                self.seen.add(progress.batchId)
                self.rows += progress.numInputRows
        return len(self.seen) > before


def follow(query: StreamingQuery, written: Written, parent: ParentInput) -> None:
    """Report progress until the input has ended and is written. Raises the failure of the query."""
    ended = False
    while not ended:
        query.awaitTermination(1)
        ended = parent.wait(0)
        if written.add(query):
            report(rows=written.rows, batches=len(written.seen))
    query.processAllAvailable()
    written.add(query)
    query.stop()


def report(**facts: object) -> None:
    """Report ``facts`` to the demo."""
    print(json.dumps(facts), flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the process."""
    parser = argparse.ArgumentParser(prog="python -m forebay.cli.demo.job", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--sink", required=True)
    options = parser.parse_args(argv)
    spark = local_session("forebay-demo", conf=SESSION)
    report(session=spark.version)
    written = Written()
    parent = ParentInput()
    restarts = 0
    while True:
        query = start(spark, options)
        report(started=True)
        try:
            follow(query, written, parent)
        except StreamingQueryException as error:
            restarts += 1
            report(restarts=restarts, because=str(error).strip().splitlines()[-1][:300])
            if restarts > RESTARTS_MAX:
                return 1
        else:
            break
    report(finished=True, rows=written.rows, restarts=restarts)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
