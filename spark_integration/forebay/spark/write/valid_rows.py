"""Validation of a task's rows before staging: accepted rows can always be read back.

Spark does not check that a string is UTF-8: Latin-1 read as text or CSV, and binaries cast to strings, reach the task
unchanged. The value, key and header values of a record are bytes without restrictions.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from forebay.arrow import RowInvalid, checked
from forebay.page.format import HEADERS_MAX
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.write import InvalidUtf8, Rows
from forebay.spark.write.record_schema import RowPlan


class ValidRows:
    """Validator of the batches of one task. Owned by one thread."""

    def __init__(self, plan: RowPlan, invalid_utf8: InvalidUtf8) -> None:
        """Validate rows for ``plan``; ``invalid_utf8`` is the treatment of text that is not UTF-8."""
        self._is_record = plan.kind is Rows.RECORD
        self._has_headers = plan.has("headers")
        self._has_timestamp = plan.has("event_time")
        """The event time may have the name of Kafka's connector."""
        self._replace = invalid_utf8 is InvalidUtf8.REPLACE
        self._seen = 0
        """Number of rows in previous batches."""

    def checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch that every reader accepts.

        Raises `ForebaySparkError` with the row in the task and the column of the first invalid value.
        """
        if self._has_timestamp and "timestamp" in batch.schema.names:
            batch = batch.rename_columns(["event_time" if name == "timestamp" else name for name in batch.schema.names])
        try:
            valid = self._checked_headers(batch) if self._is_record else checked(batch, replace_text=self._replace)
        except RowInvalid as wrong:
            raise self._refusal(wrong) from wrong
        self._seen += batch.num_rows
        return valid

    def _checked_headers(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not self._has_headers:
            return batch
        place = batch.schema.get_field_index("headers")
        column = _with_bytes(batch.column(place))
        _check_number(column)
        headers = checked(pa.record_batch([column], names=["headers"]), replace_text=self._replace)
        return batch.set_column(place, "headers", headers.column(0))

    def _refusal(self, wrong: RowInvalid) -> ForebaySparkError:
        remedy = f"Filter such rows out, or correct the column {wrong.column}."
        if wrong.text is not None:
            remedy = (
                "Name the encoding where the text is read, e.g. .option('encoding', 'ISO-8859-1') of a CSV file, or "
                "decode(bytes, 'ISO-8859-1'); keep bytes as they are with a cast to binary; "
                'or replace them by U+FFFD: .option("invalid_utf8", "replace").'
            )
        return ForebaySparkError(
            f"Row {self._seen + wrong.row} of this task cannot be written: column {wrong.column}: {wrong.reason}.",
            remedy,
        )


def _check_number(headers: pa.Array) -> None:
    """Raise `RowInvalid` for the first record with too many headers."""
    numbers = pc.fill_null(pc.list_value_length(headers), 0)
    if (pc.max(numbers).as_py() or 0) <= HEADERS_MAX:
        return
    row = pc.index(pc.greater(numbers, HEADERS_MAX), True).as_py()
    raise RowInvalid(row, "headers", f"{numbers[row].as_py()} headers are more than {HEADERS_MAX}")


def _with_bytes(headers: pa.Array) -> pa.Array:
    """Return headers with values as bytes, which need not be UTF-8."""
    kind = headers.type
    entry = kind.value_type
    value = entry.field(1)
    is_large = pa.types.is_large_string(value.type) or pa.types.is_large_binary(value.type)
    entry = pa.struct([entry.field(0), value.with_type(pa.large_binary() if is_large else pa.binary())])
    return headers.cast(pa.large_list(entry) if pa.types.is_large_list(kind) else pa.list_(entry))
