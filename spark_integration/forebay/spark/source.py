"""Data source of ``format("forebay")``.

It runs in the driver and reports errors of options, schema, sink and broker before a task starts. Spark imports this
module in sessions that never use Forebay, so heavy modules are imported on use.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.read import read_options, schema_options
from forebay.spark.options.write import Rows, write_options
from forebay.spark.read.schema import read_schema
from forebay.spark.versions import require_read_limits
from forebay.spark.write.record_schema import plan_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from forebay.spark.options.write import WriteOptions
    from forebay.spark.read.batch_reader import ForebayReader
    from forebay.spark.read.stream_reader import ForebayStreamReader
    from forebay.spark.resend.reader import ForebayResendReader
    from forebay.spark.write.writer import ForebayStreamWriter, ForebayWriter


class ForebayDataSource(DataSource):
    """Data source that writes batches and streams to a sink, and reads batches and streams from it."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return "forebay"

    def schema(self) -> StructType:
        """Return the columns of a read: those of the sink's rows or of records, and metadata columns."""
        options = schema_options(self.options, os.environ)
        if options.rows is Rows.RECORD:
            return read_schema(options.columns, options.metadata)
        from forebay.spark.read.rows import columns_of  # noqa: PLC0415 - imports grpc

        return columns_of(options)

    def writer(self, schema: StructType, overwrite: bool) -> ForebayWriter:
        """Return the writer of a batch after checking sink and broker. Raises `ForebaySparkError`."""
        options = self._write_options(overwrite=overwrite, is_stream=False)
        from forebay.spark.write.jobs import batch_job  # noqa: PLC0415 - imports grpc and pyarrow
        from forebay.spark.write.writer import ForebayWriter  # noqa: PLC0415 - imports pyarrow

        plan = plan_of(schema, options)
        return ForebayWriter(batch_job(options, plan, schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> ForebayStreamWriter:
        """Return the writer of a micro-batch; a known broker may be unavailable at this time."""
        options = self._write_options(overwrite=overwrite, is_stream=True)
        from forebay.spark.write.jobs import stream_job  # noqa: PLC0415 - imports grpc and pyarrow
        from forebay.spark.write.writer import ForebayStreamWriter  # noqa: PLC0415 - imports pyarrow

        plan = plan_of(schema, options)
        return ForebayStreamWriter(stream_job(options, plan, schema))

    def reader(self, schema: StructType) -> ForebayReader:
        """Return the reader of a batch. Raises `ForebaySparkError`."""
        options = read_options(self.options, os.environ)
        from forebay.spark.read.batch_reader import ForebayReader  # noqa: PLC0415 - imports grpc and pyarrow

        return ForebayReader(options, schema)

    def streamReader(self, schema: StructType) -> ForebayStreamReader | ForebayResendReader:
        """Return the reader of a stream. Raises `ForebaySparkError`."""
        options = read_options(self.options, os.environ, is_stream=True)
        if options.resend is not None:
            require_read_limits("mode=resend", "Consume the retry queue with forebay.client's resends.")
            from forebay.spark.resend.reader import ForebayResendReader  # noqa: PLC0415 - imports grpc and pyarrow

            return ForebayResendReader(options, options.resend, schema)
        if options.max_records_per_trigger is not None or options.max_bytes_per_trigger is not None:
            require_read_limits(
                "A limit of a micro-batch", "Leave max_records_per_trigger and max_bytes_per_trigger out."
            )
        from forebay.spark.read.stream_reader import ForebayStreamReader  # noqa: PLC0415 - imports grpc and pyarrow

        return ForebayStreamReader(options, schema)

    def _write_options(self, *, overwrite: bool, is_stream: bool) -> WriteOptions:
        if overwrite:
            raise ForebaySparkError(
                "A sink cannot be overwritten, because its records await delivery.",
                'Use mode("append"), and in streams outputMode("append") or "update".',
            )
        return write_options(self.options, os.environ, is_stream=is_stream)
