"""The data source behind ``format("holdfast")``.

It lives in the driver, where everything that can be wrong about options, schema, sink and broker is found before a task
starts. Spark imports this module in sessions that never use Holdfast, so what is heavy is imported when it is used.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from holdfast.spark.errors import HoldfastSparkError
from holdfast.spark.options import Rows, write_options
from holdfast.spark.read_options import read_options, schema_options
from holdfast.spark.read_schema import read_schema
from holdfast.spark.schema import plan_rows
from holdfast.spark.versions import need_read_limits

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from holdfast.spark.options import WriteOptions
    from holdfast.spark.reader import HoldfastReader
    from holdfast.spark.resend_reader import HoldfastResendReader
    from holdfast.spark.stream_reader import HoldfastStreamReader
    from holdfast.spark.writer import HoldfastStreamWriter, HoldfastWriter


class HoldfastDataSource(DataSource):
    """Writes batches and streams to a sink of Holdfast, and reads a range of one or follows it."""

    @classmethod
    def name(cls) -> str:
        """Return the name that ``format`` takes."""
        return "holdfast"

    def schema(self) -> StructType:
        """Return the columns of a read: those of the rows that the sink holds, or of records; and those about them."""
        options = schema_options(self.options, os.environ)
        if options.rows is Rows.RECORD:
            return read_schema(options.columns, options.metadata)
        from holdfast.spark.row_reading import columns_of  # noqa: PLC0415 - imports grpc

        return columns_of(options)

    def writer(self, schema: StructType, overwrite: bool) -> HoldfastWriter:
        """Return the writer of a batch, once sink and broker have been found. Raises `HoldfastSparkError`."""
        options = self._write_options(overwrite=overwrite, is_stream=False)
        from holdfast.spark.jobs import batch_job  # noqa: PLC0415 - imports grpc and pyarrow
        from holdfast.spark.writer import HoldfastWriter  # noqa: PLC0415 - imports pyarrow

        plan = plan_rows(schema, options.rows, options.partition_by, options.arrow_dictionary)
        return HoldfastWriter(batch_job(options, plan, schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> HoldfastStreamWriter:
        """Return the writer of a micro-batch; a broker that was found before may be away now."""
        options = self._write_options(overwrite=overwrite, is_stream=True)
        from holdfast.spark.jobs import stream_job  # noqa: PLC0415 - imports grpc and pyarrow
        from holdfast.spark.writer import HoldfastStreamWriter  # noqa: PLC0415 - imports pyarrow

        plan = plan_rows(schema, options.rows, options.partition_by, options.arrow_dictionary)
        return HoldfastStreamWriter(stream_job(options, plan, schema))

    def reader(self, schema: StructType) -> HoldfastReader:
        """Return the reader of a range. Raises `HoldfastSparkError`."""
        options = read_options(self.options, os.environ)
        from holdfast.spark.reader import HoldfastReader  # noqa: PLC0415 - imports grpc and pyarrow

        return HoldfastReader(options, schema)

    def streamReader(self, schema: StructType) -> HoldfastStreamReader | HoldfastResendReader:
        """Return the reader of a stream. Raises `HoldfastSparkError`."""
        options = read_options(self.options, os.environ, is_stream=True)
        if options.resending is not None:
            need_read_limits("mode=resend", "Consume what was set aside with holdfast.client's resends.")
            from holdfast.spark.resend_reader import HoldfastResendReader  # noqa: PLC0415 - imports grpc and pyarrow

            return HoldfastResendReader(options, options.resending, schema)
        if options.max_records_per_trigger is not None or options.max_bytes_per_trigger is not None:
            need_read_limits("A limit of a micro-batch", "Leave max_records_per_trigger and max_bytes_per_trigger out.")
        from holdfast.spark.stream_reader import HoldfastStreamReader  # noqa: PLC0415 - imports grpc and pyarrow

        return HoldfastStreamReader(options, schema)

    def _write_options(self, *, overwrite: bool, is_stream: bool) -> WriteOptions:
        if overwrite:
            raise HoldfastSparkError(
                "A sink cannot be overwritten: what is in it waits for its target.",
                'Use mode("append"), and in streams outputMode("append") or "update".',
            )
        return write_options(self.options, os.environ, is_stream=is_stream)
