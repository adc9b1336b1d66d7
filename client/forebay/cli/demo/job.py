"""The Spark process of the demo: reads the input folder as a stream, cleans the rows, writes them to
Forebay.

    python -m forebay.cli.demo.job --folder DIR --checkpoint DIR --endpoint HOST:PORT --sink NAME

It reports on standard output, one JSON object per line, and ends when its standard input has ended and
everything that stands in the folder has been written. A query that fails is started again from its
checkpoint, a bounded number of times.
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

from forebay.cli.demo.orders import Orders
from forebay.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

RESTARTS_MAX: Final = 10
"""How often a failed query is started again."""

FILES_PER_BATCH: Final = 40
"""Most files of a micro-batch."""

SESSION: Final = {
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",  # two field names that become one: the later field stays
    # Half a minute of work does not repay the optimising compiler: without it Spark is up in two thirds of the time.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""Settings of the session."""

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
"""A line of the input folder; fields of any type arrive as text."""


def clean(rows: DataFrame) -> DataFrame:
    """Make records of rows: `value` (JSON), `key` and `event_time`; one record per row.

    Field names become lower case words joined by underscores, empty fields go, and numbers are put beside the
    text as numbers, so that the remote system can compute with them.
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
    """Start the query, or go on from its checkpoint."""
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
    """Sum over the batches."""

    seen: set[int] = field(default_factory=set)
    """Numbers of the batches in the sum: a batch that is run again counts once."""

    def add(self, query: StreamingQuery) -> bool:
        """Take in the query's recent progress; whether there was any."""
        before = len(self.seen)
        for progress in query.recentProgress:
            if progress.numInputRows and progress.batchId not in self.seen:
                self.seen.add(progress.batchId)
                self.rows += progress.numInputRows
        return len(self.seen) > before


def follow(query: StreamingQuery, written: Written, orders: Orders) -> None:
    """Report progress until the input has ended and all of it is written. Raises what made the query fail."""
    over = False
    while not over:
        query.awaitTermination(1)
        over = orders.wait(0)
        if written.add(query):
            tell(rows=written.rows, batches=len(written.seen))
    query.processAllAvailable()
    written.add(query)
    query.stop()


def tell(**facts: object) -> None:
    """Report ``facts`` to the demo."""
    print(json.dumps(facts), flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the process; see the module's text."""
    parser = argparse.ArgumentParser(prog="python -m forebay.cli.demo.job", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--sink", required=True)
    options = parser.parse_args(argv)
    spark = local_session("forebay-demo", conf=SESSION)
    tell(session=spark.version)
    written = Written()
    orders = Orders()
    restarts = 0
    while True:
        query = start(spark, options)
        tell(started=True)
        try:
            follow(query, written, orders)
        except StreamingQueryException as error:
            restarts += 1
            tell(restarts=restarts, because=str(error).strip().splitlines()[-1][:300])
            if restarts > RESTARTS_MAX:
                return 1
        else:
            break
    tell(finished=True, rows=written.rows, restarts=restarts)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
