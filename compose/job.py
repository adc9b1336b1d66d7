"""A streaming query that writes live readings of its machine to a sink, until SIGTERM.

    python job.py --sink NAME --checkpoint DIR [--rate N]      (the broker: FOREBAY_ENDPOINT)

Spark's rate source gives the ticks, so that they are numbered without a hole over restarts; the readings are taken in
the tasks, when a tick is processed. A batch that is run again takes them again: same tick, same entity. On SIGTERM
the last line on standard output says up to where all ticks are written, as JSON.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Iterator
from threading import Event
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F

from forebay.cli.demo.source import readings
from forebay.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

SCHEMA: Final = "tick bigint, entity string, sensor string, taken_at timestamp, fields map<string, double>"
POLL_S: Final = 1


def take(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Take the readings for each tick: one row per processor, disk, interface, process and so on."""
    schema = pa.schema(
        [
            ("tick", pa.int64()),
            ("entity", pa.string()),
            ("sensor", pa.string()),
            ("taken_at", pa.timestamp("us", tz="UTC")),
            ("fields", pa.map_(pa.string(), pa.float64())),
        ]
    )
    for batch in batches:
        rows = [
            {
                "tick": tick,
                "entity": entity,
                "sensor": str(data.get("sensor")),
                "taken_at": at,
                "fields": [(name, float(value)) for name, value in data.items() if isinstance(value, int | float)],
            }
            for tick, at in zip(batch["value"].to_pylist(), batch["timestamp"].to_pylist(), strict=True)
            for entity, data in readings.sample()
        ]
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=schema)


def records(ticks: DataFrame) -> DataFrame:
    """Make records of ticks: one JSON document per reading, ordered by entity."""
    taken = ticks.mapInArrow(take, SCHEMA)
    named = F.transform_keys("fields", lambda name, _: F.regexp_replace(name, "[^a-z0-9]+", "_"))
    return taken.withColumn("fields", named).select(
        F.to_json(F.struct("tick", "entity", "sensor", "taken_at", "fields")).alias("value"),
        F.col("entity").alias("key"),
        F.col("taken_at").alias("event_time"),
    )


def ticks_written(query: StreamingQuery, rate: int) -> int:
    """Return below which tick everything is written: the end of the last batch that was committed."""
    progress = query.lastProgress
    return int(progress.sources[0].endOffset or 0) * rate if progress is not None else 0


def main() -> int:
    """Run until SIGTERM, or until the query fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sink", required=True)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--rate", type=int, default=4, help="ticks per second")
    options = parser.parse_args()
    stopping = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    spark = local_session("readings")
    ticks = spark.readStream.format("rate").option("rowsPerSecond", options.rate).load()
    query = (
        records(ticks)
        .writeStream.format("forebay")
        .queryName("readings")
        .option("sink", options.sink)
        .option("checkpointLocation", options.checkpoint)
        .trigger(processingTime="1 second")
        .start()
    )
    while not stopping.is_set() and not query.awaitTermination(POLL_S):
        pass
    written = ticks_written(query, options.rate)
    query.stop()
    spark.stop()
    sys.stdout.write(json.dumps({"ticks": written}) + "\n")
    return 0 if stopping.is_set() else 1


if __name__ == "__main__":
    sys.exit(main())
