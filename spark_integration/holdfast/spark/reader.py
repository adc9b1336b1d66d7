"""Reads a range of a sink as a batch, without settling anything.

The range is fixed in the driver, before any task starts, so every task of every attempt reads the same offsets.
A record of the range that is gone fails the read, unless the user has accepted that loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from holdfast.client import Client, StoredPage, errors
from holdfast.spark import telemetry
from holdfast.spark.broker import connect
from holdfast.spark.options import ReadOptions
from holdfast.spark.ranges import Held, Span, plan_spans
from holdfast.spark.remedies import explained
from holdfast.spark.row_reading import page_reader

BATCH_RECORDS: Final = 10_000
BATCH_BYTES: Final = 4 << 20


class Split(InputPartition):
    """What one Spark task reads."""

    def __init__(self, span: Span) -> None:
        """``span`` names a partition of the sink and the offsets in it."""
        super().__init__(span)
        self.span = span


class HoldfastReader(DataSourceReader):
    """Reads a range."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        """``schema`` must fit what the sink holds: Spark passes on what a user set. Raises `HoldfastSparkError`."""
        self._options = options
        self._pages_of = page_reader(options, schema)

    def partitions(self) -> list[InputPartition]:
        """Fix the range and cut it. Raises `HoldfastSparkError`."""
        target = self._options.target
        try:
            with connect(target, patience_s=target.connect_timeout_s) as client:
                stats = client.sinks.stats(target.sink)
        except errors.HoldfastError as error:
            raise explained(error, target, doing="read from") from error
        held = [Held(one.partition, one.earliest_offset, one.next_offset) for one in stats.partitions]
        return [Split(span) for span in plan_spans(self._options, held)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one split. Raises `HoldfastSparkError`."""
        if not isinstance(partition, Split):  # what Spark passes when there is nothing to read
            return
        target = self._options.target
        with telemetry.task("read", target.sink):
            try:
                with connect(target, patience_s=target.connect_timeout_s) as client:
                    yield from _gathered(self._pages_of.batch(page) for page in self._pages(client, partition.span))
            except errors.HoldfastError as error:
                raise explained(error, target, doing="read from") from error

    def _pages(self, client: Client, span: Span) -> Iterator[StoredPage]:
        """Yield the pages of a span, past what is gone where that is accepted."""
        fail = self._options.fail_on_data_loss
        start = span.start
        while start < span.end:
            try:
                with client.replay_pages(
                    self._options.target.sink,
                    partition=span.partition,
                    start=start,
                    end=span.end,
                    on_gap="raise" if fail else "yield",
                ) as replay:
                    for page in replay:
                        start = page.last_offset + 1
                        if isinstance(page, StoredPage):
                            yield page
                return
            except errors.OffsetTrimmed as error:
                if fail or error.earliest <= start:
                    raise
                start = error.earliest


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join small batches: a sink that was fed record by record has a page for each."""
    waiting: list[pa.RecordBatch] = []
    records = size = 0
    for batch in batches:
        waiting.append(batch)
        records += batch.num_rows
        size += batch.nbytes
        if records >= BATCH_RECORDS or size >= BATCH_BYTES:
            yield pa.concat_batches(waiting)
            waiting, records, size = [], 0, 0
    if waiting:
        yield pa.concat_batches(waiting)
