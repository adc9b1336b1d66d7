"""A Spark driver in a process of its own, for tests that kill it: a stream from a folder of files into ``orders``."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from holdfast.spark.session import local_session


def main() -> None:
    """Run the query until all files are written."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--pause-s", type=float, required=True, help="how long a task lingers over its rows")
    options = parser.parse_args()
    pause_s: float = options.pause_s

    def linger(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            yield batch
            if number == 10:
                time.sleep(pause_s)

    # Small batches of large rows, so that a task stages some of them while it lingers.
    conf = {
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
        "spark.sql.warehouse.dir": str(options.folder / "warehouse"),
    }
    spark = local_session("killed", conf=conf)
    rows = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(options.folder / "input"))
    query = (
        rows.selectExpr("rpad(value, 1000, '.') as value")
        .mapInArrow(linger, "value string")
        .writeStream.format("holdfast")
        .options(endpoint=options.endpoint, sink="orders", page_bytes="65536")
        .option("checkpointLocation", str(options.folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
