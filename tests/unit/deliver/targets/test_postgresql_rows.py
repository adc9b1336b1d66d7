"""A row is what a record says, column by column; what is no row is told without its contents."""

from __future__ import annotations

import pytest

from forebay.deliver import Batch
from forebay.deliver.targets.postgresql_rows import RowInvalid, json_rows, offsets_of, record_rows
from forebay.deliver.targets.postgresql_settings import UnknownFields, Value
from tests.support.targets.memory_source import EVENT_TIME, MemoryRecord

TYPES = {"id": "bigint", "price": "numeric", "tags": "jsonb", "name": "text"}


def batch(*values: bytes, first: int = 0) -> Batch:
    return Batch("orders", "i", 3, tuple(MemoryRecord(first + n, value) for n, value in enumerate(values)))


def cells(*values: bytes) -> list[tuple[tuple[str, ...], list[tuple[object, ...]]]]:
    return [(one.columns, one.rows) for one in json_rows(batch(*values), TYPES, UnknownFields.REJECT)]


def test_a_record_is_a_row_with_its_position() -> None:
    record = MemoryRecord(7, b"{}", b"k", [("a", b"1"), ("b", b"\xff")], EVENT_TIME)
    [found] = record_rows(Batch("orders", "i", 3, (record,)), Value.JSONB)

    assert found.rows == [("i", 3, 7, EVENT_TIME, b"k", "{}", '[["a", "1"], ["b", "\ufffd"]]')]


@pytest.mark.parametrize("value", [Value.TEXT, Value.JSONB])
def test_bytes_that_are_no_text_have_no_row_of_text(value: Value) -> None:
    with pytest.raises(RowInvalid, match="not UTF-8"):
        list(record_rows(batch(b"\xff"), value))


def test_rows_with_the_same_fields_are_written_together_in_order() -> None:
    found = cells(b'{"id": 1, "name": "a"}', b'{"name": "b", "id": 2}', b'{"id": 3}', b'{"id": 4, "name": null}')

    assert found == [
        (("id", "name"), [(1, "a"), (2, "b")]),
        (("id",), [(3,)]),
        (("id", "name"), [(4, None)]),
    ]


def test_numbers_keep_their_digits_and_structures_are_json() -> None:
    [(columns, rows)] = cells(b'{"price": 0.10000000000000000000001, "tags": {"a": [1.5, true]}, "name": [1]}')

    assert columns == ("price", "tags", "name")
    assert rows == [("0.10000000000000000000001", '{"a": [1.5, true]}', "[1]")]


def test_a_boolean_is_no_number() -> None:
    assert cells(b'{"name": true, "tags": false}') == [(("tags", "name"), [("false", "true")])]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"{", "the value is not JSON"),
        (b"[" * 100_000, "the value is not JSON"),
        (b"\xff", "the value is not JSON"),
        (b'{"id": NaN}', "the value is not JSON"),
        (b"[1]", "the value is no JSON object"),
        (b"{}", "no field has a column"),
        (b'{"id": 1, "zz": 2, "aa": 3}', "2 fields have no column, such as 'aa'"),
    ],
)
def test_a_value_that_is_no_row_is_invalid_with_the_reason(value: bytes, message: str) -> None:
    with pytest.raises(RowInvalid) as error:
        cells(value)

    assert str(error.value) == message


def test_only_records_outside_of_the_delivered_ranges_are_left() -> None:
    given = batch(b"0", b"1", b"2", b"3", b"4", first=10)

    assert offsets_of(given, []) is given
    assert offsets_of(given, [(0, 15)]) is None
    left = offsets_of(given, [(0, 11), (13, 14)])
    assert left is not None
    assert [record.offset for record in left.records] == [11, 12, 14]
