"""Every Spark type has one JSON form."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.arrow.json_prefix import json_prefix
from forebay.arrow.json_rows import json_rows, json_text


def texts(values: list[Any], kind: pa.DataType) -> list[str]:
    found: list[str] = json_text(pa.array(values, kind)).to_pylist()
    return found


def test_a_row_has_every_column_in_order_and_no_spaces() -> None:
    batch = pa.record_batch({"b": pa.array([1, None]), 'say "a"': pa.array(["x", "y"])})

    assert json_rows(batch).to_pylist() == [b'{"b":1,"say \\"a\\"":"x"}', b'{"b":null,"say \\"a\\"":"y"}']


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (pa.bool_(), True, "true"),
        (pa.int8(), -128, "-128"),
        (pa.int64(), 2**63 - 1, "9223372036854775807"),
        (pa.float64(), 1.0, "1.0"),
        (pa.float64(), -0.0, "-0.0"),
        (pa.float64(), 0.1, "0.1"),
        (pa.float64(), 1e20, "1e+20"),
        (pa.float32(), 0.1, "0.1"),
        (pa.float64(), math.nan, '"NaN"'),
        (pa.float64(), math.inf, '"Infinity"'),
        (pa.float64(), -math.inf, '"-Infinity"'),
        (pa.decimal128(10, 2), Decimal("1.50"), "1.50"),
        (
            pa.decimal128(38, 0),
            Decimal("12345678901234567890123456789012345678"),
            "12345678901234567890123456789012345678",
        ),
        (pa.string(), 'a"b\\c\n\t\x01é', '"a\\"b\\\\c\\n\\t\\u0001é"'),
        (pa.large_string(), "long", '"long"'),
        (pa.binary(), b"\x00\xff", '"AP8="'),
        (pa.date32(), dt.date(2026, 1, 31), '"2026-01-31"'),
        (
            pa.timestamp("us", "Europe/Berlin"),
            dt.datetime(2026, 1, 31, 23, 59, 59, 123456, dt.UTC),
            '"2026-01-31T23:59:59.123456Z"',
        ),
        (pa.timestamp("us", "UTC"), dt.datetime(1969, 12, 31, tzinfo=dt.UTC), '"1969-12-31T00:00:00.000000Z"'),
        (pa.timestamp("us"), dt.datetime(2026, 1, 31, 1, 2, 3), '"2026-01-31T01:02:03.000000"'),  # noqa: DTZ001
        (pa.date32(), (1 << 31) - 1, '"5881580-07-11"'),
        (pa.date32(), -(1 << 31), '"-5877641-06-23"'),
        (pa.timestamp("us", "UTC"), (1 << 63) - 1, '"294247-01-10T04:00:54.775807Z"'),
        (pa.timestamp("us"), -(1 << 63), '"-290308-12-21T19:59:05.224192"'),
        (pa.timestamp("s", "UTC"), 253_402_300_800, '"10000-01-01T00:00:00.000000Z"'),
        (pa.time64("ns"), dt.time(1, 2, 3, 4), '"01:02:03.000004"'),
        (pa.duration("us"), dt.timedelta(days=1, hours=2, microseconds=5), '"PT93600.000005S"'),
        (pa.duration("us"), dt.timedelta(microseconds=-1), '"PT-0.000001S"'),
        (pa.list_(pa.int32()), [1, None, 3], "[1,null,3]"),
        (pa.list_(pa.int32()), [], "[]"),
        (pa.struct([("a", pa.int32()), ("b", pa.string())]), {"a": 1, "b": None}, '{"a":1,"b":null}'),
        (pa.struct([]), {}, "{}"),
        (pa.map_(pa.string(), pa.int32()), [("a\n", 1), ("b", None)], '{"a\\n":1,"b":null}'),
        (pa.map_(pa.int32(), pa.string()), [(7, "x")], '{"7":"x"}'),
        (pa.map_(pa.float64(), pa.int32()), [(math.nan, 1), (1.5, 2)], '{"NaN":1,"1.5":2}'),
        (pa.map_(pa.date32(), pa.int32()), [(dt.date(2026, 1, 1), 1)], '{"2026-01-01":1}'),
        (pa.map_(pa.struct([("a", pa.string())]), pa.int32()), [({"a": "x"}, 1)], '{"{\\"a\\":\\"x\\"}":1}'),
        (pa.list_(pa.list_(pa.struct([("a", pa.binary())]))), [[{"a": b"x"}], None], '[[{"a":"eA=="}],null]'),
        (pa.dictionary(pa.int32(), pa.string()), "x", '"x"'),
    ],
    ids=str,
)
def test_each_type_has_its_form_and_null_stays_null(kind: pa.DataType, value: object, text: str) -> None:
    assert texts([None, value, None, value], kind) == ["null", text, "null", text]
    json.loads(text)


@pytest.mark.parametrize("decimal", [pa.decimal128, pa.decimal256])
@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        (38, ["1.23E-36", "null", "-5E-38"]),
        (100, ["1.23E-98", "null", "-5E-100"]),
        (-100, ["1.23E+102", "null", "-5E+100"]),
        ((1 << 31) - 1, ["1.23E-2147483645", "null", "-5E-2147483647"]),
    ],
)
def test_a_decimal_of_any_scale_is_a_number(
    decimal: Callable[..., pa.DataType], scale: int, expected: list[str]
) -> None:
    kind = decimal(3, scale)
    unscaled = b"".join(number.to_bytes(kind.bit_width // 8, "little", signed=True) for number in (9, 123, 0, -5))
    array = pa.Array.from_buffers(kind, 4, [pa.py_buffer(b"\x0b"), pa.py_buffer(unscaled)]).slice(1)
    offsets = pa.array([0, 1, 3], pa.int32())
    nested = {
        "list": pa.ListArray.from_arrays(offsets, array),
        "struct": pa.StructArray.from_arrays([array.slice(1)], names=["a"]),
        "keys": pa.MapArray.from_arrays(offsets, pa.array(["a", "b", "c"]), array),
        "by": pa.MapArray.from_arrays(pa.array([0, 1, 1], pa.int32()), array.slice(2), pa.array([1])),
        "coded": pa.DictionaryArray.from_arrays(pa.array([0, 2]), array),
    }
    first, second, third = expected

    rows = [row.decode() for row in json_rows(pa.record_batch(nested)).to_pylist()]

    assert json_text(array).to_pylist() == expected
    assert rows == [
        f'{{"list":[{first}],"struct":{{"a":{second}}},"keys":{{"a":{first}}},"by":{{"{third}":1}},"coded":{first}}}',
        f'{{"list":[{second},{third}],"struct":{{"a":{third}}},"keys":{{"b":{second},"c":{third}}},"by":{{}},'
        f'"coded":{third}}}',
    ]
    assert json_prefix(pa.record_batch(nested), 1, 1_000) == (rows[1], True)


def test_a_column_of_nothing_but_null_is_null() -> None:
    assert texts([None, None], pa.null()) == ["null", "null"]


def test_a_slice_of_nested_columns_sees_only_its_rows() -> None:
    batch = pa.record_batch(
        {
            "list": pa.array([[1], [2, 3], None, [4]]),
            "map": pa.array([[("a", 1)], [("b", 2)], None, []], pa.map_(pa.string(), pa.int32())),
            "struct": pa.array([{"x": "1"}, {"x": "2"}, None, {"x": "4"}]),
        }
    )

    assert json_rows(batch.slice(1, 2)).to_pylist() == [
        b'{"list":[2,3],"map":{"b":2},"struct":{"x":"2"}}',
        b'{"list":null,"map":null,"struct":null}',
    ]


def test_no_rows_are_no_text() -> None:
    batch = pa.record_batch({"a": pa.array([], pa.string()), "b": pa.array([], pa.list_(pa.int32()))})

    assert json_rows(batch).to_pylist() == []


@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"])), max_size=20))
def test_any_text_reads_back_the_same(values: list[str | None]) -> None:
    assert [json.loads(text) for text in texts(values, pa.string())] == values


@given(st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False), max_size=20))
def test_any_finite_double_reads_back_the_same_and_as_a_float(values: list[float | None]) -> None:
    back = [json.loads(text) for text in texts(values, pa.float64())]

    assert back == values
    assert all(value is None or isinstance(value, float) for value in back)


@given(
    st.lists(
        st.none()
        | st.lists(
            st.none()
            | st.dictionaries(
                st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
                st.none() | st.integers(-9, 9),
                max_size=3,
            ),
            max_size=3,
        ),
        max_size=6,
    ),
    st.integers(0, 3),
)
def test_any_nesting_reads_back_the_same_from_any_slice(values: list[Any], skip: int) -> None:
    kind = pa.list_(pa.map_(pa.string(), pa.int32()))
    as_arrow = [
        None if row is None else [None if entry is None else list(entry.items()) for entry in row] for row in values
    ]

    found = json_text(pa.array(as_arrow, kind).slice(skip)).to_pylist()

    assert [json.loads(text) for text in found] == values[skip:]
