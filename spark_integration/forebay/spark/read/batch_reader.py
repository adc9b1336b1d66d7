"""Batch reader: reads a range of a sink, without settling anything.

The range is fixed in the driver before any task starts, so that all attempts of a task read the same offsets.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from forebay.client import errors
from forebay.spark.connection.broker import connect
from forebay.spark.options.read import ReadOptions
from forebay.spark.read.ranges import plan_spans
from forebay.spark.read.rows import page_reader
from forebay.spark.read.sink_view import resolved, view
from forebay.spark.read.task_reader import Split, read_split
from forebay.spark.remedies import explained


class ForebayReader(DataSourceReader):
    """Reader of a range of offsets."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        """Read the columns of ``schema``: those of the source, or those set by the user.

        Raises `ForebaySparkError` for columns that the sink does not have.
        """
        self._options = options
        self._pages = page_reader(options, schema)

    def partitions(self) -> list[InputPartition]:
        """Fix the range and divide it into splits. Raises `ForebaySparkError`."""
        target = self._options.target
        try:
            with connect(target, patience_s=target.connect_timeout_s) as client:
                found = view(client, target.sink)
                options = resolved(client, self._options, found)
        except errors.ForebayError as error:
            raise explained(error, target, doing="read from") from error
        return [Split(span, found.incarnation) for span in plan_spans(options, found.stored)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one split. Raises `ForebaySparkError`."""
        if isinstance(partition, Split):  # Spark passes another one when there is nothing to read
            yield from read_split(self._options, self._pages, partition)
