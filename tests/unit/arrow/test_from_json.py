"""A row that was written as a JSON object is the row again."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.arrow.expansion import RowsUnreadable
from forebay.arrow.from_json import rows_from_json
from forebay.arrow.json_rows import json_rows
from forebay.spark.schema.column_names import matches


def there_and_back(values: list[Any], kind: pa.DataType) -> pa.RecordBatch:
    rows = pa.record_batch({"c": pa.array(values, kind)})
    found = rows_from_json(json_rows(rows).to_pylist(), rows.schema)
    assert found.equals(rows)
    return found


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.bool_(), [True, False]),
        (pa.int64(), [2**63 - 1, -(2**63)]),
        (pa.float64(), [0.1, 1e300, -0.0, math.inf, -math.inf]),
        (pa.float32(), [0.5, 3.0]),
        (pa.decimal128(3, 100), [Decimal("1.23E-98"), Decimal("-5E-100")]),
        (pa.decimal128(38, 18), [Decimal("12345678901234567890.123456789012345678"), Decimal("-0.5")]),
        (pa.string(), ['a"\\\n', "é", ""]),
        (pa.binary(), [b"\x00\xff", b""]),
        (pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
        (pa.timestamp("us", "UTC"), [dt.datetime(1969, 1, 1, 0, 0, 0, 1, dt.UTC)]),
        (pa.timestamp("us"), [dt.datetime(2026, 3, 29, 2, 30)]),  # noqa: DTZ001
        (pa.time64("ns"), [dt.time(23, 59, 59, 999_999), dt.time(0)]),
        (pa.duration("us"), [dt.timedelta(microseconds=-1), dt.timedelta(days=9, microseconds=5)]),
        (pa.null(), []),
        (pa.list_(pa.list_(pa.date32())), [[[dt.date(2026, 1, 1), None], None], []]),
        (pa.struct([("a", pa.int8()), ("b", pa.struct([("c", pa.binary())]))]), [{"a": 1, "b": {"c": b"x"}}]),
        (pa.map_(pa.string(), pa.float64()), [[("NaN", 1.0), ("7", None)], []]),
        (pa.map_(pa.int64(), pa.string()), [[(7, "x")]]),
        (pa.map_(pa.float64(), pa.int8()), [[(math.inf, 1), (1.5, 2)]]),
        (pa.map_(pa.date32(), pa.int8()), [[(dt.date(2026, 1, 1), 1)]]),
        (pa.map_(pa.struct([("a", pa.string())]), pa.int8()), [[({"a": "x"}, 1)]]),
    ],
    ids=str,
)
def test_each_type_round_trips(kind: pa.DataType, values: list[Any]) -> None:
    there_and_back([None, *values, None], kind)


def test_not_a_number_round_trips() -> None:
    rows = pa.record_batch({"c": pa.array([math.nan])})

    [found] = rows_from_json(json_rows(rows).to_pylist(), rows.schema).column("c").to_pylist()

    assert math.isnan(found)


@given(st.lists(st.none() | st.integers(-(1 << 31), (1 << 31) - 1), max_size=9))
def test_any_date_round_trips(days: list[int | None]) -> None:
    there_and_back(days, pa.date32())


@given(st.lists(st.none() | st.integers(-(1 << 63), (1 << 63) - 1), max_size=9), st.sampled_from(["UTC", None]))
def test_any_timestamp_round_trips(instants: list[int | None], zone: str | None) -> None:
    there_and_back(instants, pa.timestamp("us", zone))


@given(st.lists(st.none() | st.floats(allow_nan=False), max_size=20))
def test_any_double_round_trips(values: list[float | None]) -> None:
    there_and_back(values, pa.float64())


@given(st.lists(st.none() | st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]))), max_size=9))
def test_any_texts_round_trip(values: list[Any]) -> None:
    there_and_back(values, pa.list_(pa.string()))


def test_a_field_missing_in_an_older_row_is_null_and_a_field_outside_the_schema_is_left_out() -> None:
    found = rows_from_json([b'{"b":1,"a":"x"}', b'{"a":"y"}'], pa.schema([("a", pa.string()), ("c", pa.int8())]))

    assert found.to_pylist() == [{"a": "x", "c": None}, {"a": "y", "c": None}]


def test_names_that_differ_in_case_match_if_asked_and_only_where_one_does() -> None:
    nested = pa.struct([("City", pa.string())])
    wanted = pa.schema([("Name", pa.string()), ("Home", nested), ("all", pa.list_(nested)), ("x", pa.int8())])
    row = b'{"name":"a","home":{"city":"b"},"ALL":[{"CITY":"c"},null],"X":1,"x":2}'

    assert rows_from_json([row], wanted).to_pylist() == [{"Name": None, "Home": None, "all": None, "x": 2}]
    assert rows_from_json([row], wanted, match=matches).to_pylist() == [
        {"Name": "a", "Home": {"City": "b"}, "all": [{"City": "c"}, None], "x": 2}
    ]
    unclear = pa.schema([("B", pa.int8()), ("Aa", pa.int8()), ("AA", pa.int8())])
    assert rows_from_json([b'{"b":1,"aa":2}', b'{"b":1,"Aa":2,"aa":3}', b'{"Aa":2,"aA":3,"aa":4}'], unclear,
                          match=matches).to_pylist() == [
        {"B": 1, "Aa": None, "AA": None}, {"B": 1, "Aa": 2, "AA": 3}, {"B": None, "Aa": 2, "AA": None},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (b"[1]", pa.int64()),
        (b"nonsense", pa.int64()),
        (b'{"c":"x"}', pa.int64()),
        (b'{"c":1.5}', pa.int64()),
        (b'{"c":300}', pa.int8()),
        (b'{"c":"x"}', pa.decimal128(5, 1)),
        (b'{"c":"1 s"}', pa.duration("us")),
        (b'{"c":"?"}', pa.binary()),
        (b'{"c":7}', pa.list_(pa.int8())),
        (b'{"c":"abc"}', pa.list_(pa.string())),
        (b'{"c":{"a":1}}', pa.list_(pa.string())),
        (b'"hello"', pa.int64()),
        (b"7", pa.int64()),
        (b'{"c":"hello"}', pa.struct([("a", pa.int8())])),
        (b'{"c":[]}', pa.struct([("a", pa.int8())])),
        (b'{"c":["a"]}', pa.map_(pa.string(), pa.int8())),
        (b'{"c":"2026-02-30"}', pa.date32()),
        (b'{"c":"10001-02-29"}', pa.date32()),
        (b'{"c":"5881580-07-12"}', pa.date32()),
        (b'{"c":"10000-01-01T00:00:00+01:00"}', pa.timestamp("us", "UTC")),
        (b'{"c":"294247-01-10T04:00:54.775808Z"}', pa.timestamp("us", "UTC")),
    ],
)
def test_a_value_that_is_not_in_the_form_of_the_schema_is_reported(value: bytes, kind: pa.DataType) -> None:
    with pytest.raises(RowsUnreadable, match="not in the form of its schema"):
        rows_from_json([value], pa.schema([("c", kind)]))
    with pytest.raises(RowsUnreadable, match="not in the form of its schema"):
        rows_from_json([value], pa.schema([("c", kind)]), match=matches)


@pytest.mark.parametrize("kind", [pa.struct([("x", pa.int32())]), pa.map_(pa.string(), pa.int32())])
@pytest.mark.parametrize("match", [None, matches])
def test_a_value_in_place_of_an_object_is_named(kind: pa.DataType, match: Any) -> None:
    schema = pa.schema([("c", kind)])

    with pytest.raises(RowsUnreadable, match="in the form of its schema: list in place of an object"):
        rows_from_json([b'{"c":[1]}'], schema, match=match)
    with pytest.raises(RowsUnreadable, match="in the form of its schema: str in place of an object"):
        rows_from_json([b'"row"'], schema, match=match)
