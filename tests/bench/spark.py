"""A Spark job that writes a value column to a sink, against the same job with a writer that discards.

Both run in one session, ``local[2]``, in turns, in a process of its own (``python -m tests.bench.spark``).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from tests.bench.processes import broker, child
from tests.bench.values import Bar, Row, Sample, row_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

ROWS: Final = (3_000_000, 600_000)
"""In full, and quickly."""
ROW_BYTES: Final = 230
TASKS: Final = 4
SINK_PARTITIONS: Final = 2
BAR: Final = 0.30


def compare(folder: Path, *, rounds: int, quick: bool, rows: list[Row], bars: list[Bar]) -> None:
    """Measure in a child and add the rows and the bar."""
    log = folder / "spark.log"
    count = ROWS[1] if quick else ROWS[0]
    with (
        broker(folder / "spark", folder / "broker.log") as (_, endpoint),
        child("tests.bench.spark", endpoint, str(count), str(rounds), log=log) as job,
    ):
        found = job.report()
    discarded = [Sample(count, count * ROW_BYTES, seconds) for seconds in found["discarded_s"]]
    written = [Sample(count, count * ROW_BYTES, seconds) for seconds in found["written_s"]]
    rows.append(row_of("Spark, writer that discards", discarded, record_bytes=ROW_BYTES))
    rows.append(row_of("Spark, value column to a sink", written, record_bytes=ROW_BYTES, partitions=SINK_PARTITIONS))
    ratios = [d.seconds / w.seconds for d, w in zip(discarded, written, strict=True)]
    bars.append(Bar("Spark, sink / writer that discards", median(ratios), BAR))


def frame(spark: SparkSession, count: int) -> DataFrame:
    """Rows with a binary value of 230 bytes, cheap to make: that cost is inside both figures."""
    text = "temperature=21.5;humidity=40;pressure=1013;state=ok;unit=metric;".ljust(ROW_BYTES - 16, ".")
    return spark.range(count, numPartitions=TASKS).selectExpr(
        f"cast(concat(lpad(hex(xxhash64(id)), 16, '0'), '{text}') AS binary) AS value"
    )


def run(endpoint: str, count: int, rounds: int) -> None:
    """The child: warm both ways up, then measure them in turns."""
    from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
    from pyspark.sql.types import StructType

    from forebay.client import Client
    from forebay.spark.session import local_session

    @dataclass
    class Discarded(WriterCommitMessage):
        rows: int

    class DiscardingWriter(DataSourceArrowWriter):
        def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
            return Discarded(sum(batch.num_rows for batch in iterator))

    class Discarding(DataSource):
        @classmethod
        def name(cls) -> str:
            return "discarding"

        def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
            return DiscardingWriter()

    spark = local_session("forebay-bench", conf={"spark.driver.memory": "2g"})
    spark.dataSource.register(Discarding)
    address, _, port = endpoint.rpartition(":")
    with Client(endpoint) as client:
        client.sinks.create("spark", partitions=SINK_PARTITIONS, max_total_bytes=1 << 40)

        def discard(rows: DataFrame) -> float:
            begun = time.perf_counter()
            rows.write.format("discarding").mode("append").save()
            return time.perf_counter() - begun

        def write(rows: DataFrame) -> float:
            begun = time.perf_counter()
            rows.write.format("forebay").option("endpoint", f"{address}:{port}").mode("append").save("spark")
            return time.perf_counter() - begun

        warm = frame(spark, count // 3)
        for _ in range(3):
            discard(warm)
            write(warm)
        before = client.sinks.stats("spark").records
        measured = frame(spark, count)
        discarded, written = [], []
        for _ in range(rounds):
            discarded.append(discard(measured))
            written.append(write(measured))
        added = client.sinks.stats("spark").records - before
        if added != rounds * count:
            raise RuntimeError(f"{added} records came into the sink, {rounds * count} were written")
    spark.stop()
    print(json.dumps({"discarded_s": discarded, "written_s": written}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("endpoint")
    parser.add_argument("count", type=int)
    parser.add_argument("rounds", type=int)
    given = parser.parse_args()
    run(given.endpoint, given.count, given.rounds)
