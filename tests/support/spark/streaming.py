"""Helpers of streaming tests: input that grows file by file, and queries over it."""

from __future__ import annotations

import itertools
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

NUMBERS = itertools.count()


class Input:
    """A folder of text files: a line is a row."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "input"
        self.folder.mkdir()
        self.written: list[bytes] = []

    def add(self, count: int) -> None:
        """Add a file with new lines."""
        lines = [b"row %d" % next(NUMBERS) for _ in range(count)]
        hidden = self.folder / f".{len(self.written)}"
        hidden.write_bytes(b"\n".join(lines))
        hidden.rename(self.folder / f"{len(self.written)}.txt")
        self.written += lines

    def rows(self, spark: SparkSession, *, files_max: int = 1) -> DataFrame:
        """Return the stream: one file per micro-batch unless it may be more."""
        return spark.readStream.format("text").option("maxFilesPerTrigger", files_max).load(str(self.folder))


def stream(rows: DataFrame, endpoint: str, folder: Path, **options: str) -> DataStreamWriter:
    """Return a query that is ready to start."""
    return (
        rows.writeStream.format("forebay")
        .options(**{"endpoint": endpoint, "sink": "orders", **options})
        .option("checkpointLocation", str(folder / "checkpoint"))
    )
