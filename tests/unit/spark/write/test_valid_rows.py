"""A task refuses what could not be read back, before anything of it is staged, or replaces it where that is wanted."""

from __future__ import annotations

import pyarrow as pa
import pytest

from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.write import InvalidUtf8, Rows
from forebay.spark.write.record_schema import RowPlan
from forebay.spark.write.valid_rows import ValidRows
from tests.support.pages.invalid_text import unchecked_strings

BAD = unchecked_strings([b"ok", b"Z\xfcrich"])
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))


def headers(names: pa.Array, values: pa.Array) -> pa.RecordBatch:
    entries = pa.StructArray.from_arrays([names, values], names=["key", "value"])
    column = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), entries)
    return pa.record_batch([pa.array(["v", "w"]), column], names=["value", "headers"])


@pytest.mark.parametrize("kind", [Rows.ARROW, Rows.JSON])
def test_a_row_is_refused_with_its_number_in_the_task_its_column_and_what_to_do(kind: Rows) -> None:
    valid = ValidRows(RowPlan(kind, ("s",)), InvalidUtf8.FAIL)
    valid.checked(pa.record_batch({"s": pa.array(["a", "b", "c"])}))

    with pytest.raises(ForebaySparkError) as refused:
        valid.checked(pa.record_batch({"s": BAD}))

    assert "Row 4 of this task cannot be written: column s: the string is not UTF-8" in str(refused.value)
    assert '.option("invalid_utf8", "replace")' in str(refused.value)


def test_with_replacement_the_row_is_written() -> None:
    valid = ValidRows(RowPlan(Rows.ARROW, ("s",)), InvalidUtf8.REPLACE)

    assert valid.checked(pa.record_batch({"s": BAD})).column("s").to_pylist() == ["ok", "Z\ufffdrich"]


def test_the_value_and_key_of_a_record_are_bytes_and_stay_as_they_are() -> None:
    valid = ValidRows(RowPlan(Rows.RECORD, ("value", "key")), InvalidUtf8.FAIL)

    found = valid.checked(pa.record_batch({"value": BAD, "key": BAD}))

    assert found.column("value").cast(pa.binary()).to_pylist() == [b"ok", b"Z\xfcrich"]


def test_the_name_of_a_header_is_text_and_its_value_is_bytes() -> None:
    valid = ValidRows(RowPlan(Rows.RECORD, ("value", "headers")), InvalidUtf8.FAIL)

    found = valid.checked(headers(pa.array(["a", "b"]), BAD))
    assert found.column("headers").flatten().field(1).to_pylist() == [b"ok", b"Z\xfcrich"]

    with pytest.raises(ForebaySparkError, match=r"Row 3 of this task cannot be written: column headers\[\]\.key"):
        valid.checked(headers(BAD, pa.array(["a", "b"])))


def test_a_record_with_too_many_headers_is_refused_with_its_row_and_number() -> None:
    valid = ValidRows(RowPlan(Rows.RECORD, ("value", "headers")), InvalidUtf8.FAIL)
    entry = {"key": "k", "value": "v"}
    column = pa.array([[entry] * 64, None, [entry] * 65], HEADERS)

    with pytest.raises(ForebaySparkError, match=r"Row 2 of this task .*: 65 headers are more than 64"):
        valid.checked(pa.record_batch([pa.array(["a", "b", "c"]), column], names=["value", "headers"]))


def test_the_column_timestamp_of_records_is_their_event_time() -> None:
    valid = ValidRows(RowPlan(Rows.RECORD, ("value", "event_time")), InvalidUtf8.FAIL)
    moments = pa.array([1, 2], pa.timestamp("us", "UTC"))

    found = valid.checked(pa.record_batch({"value": ["a", "b"], "timestamp": moments}))

    assert found.column("event_time").equals(moments)
