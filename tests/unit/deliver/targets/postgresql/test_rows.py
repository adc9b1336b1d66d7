"""A row has the values of a record by column; an invalid one is reported without its contents."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.deliver import Batch
from forebay.deliver.targets.postgresql.rows import (
    ROWS_AT_ONCE,
    RowInvalid,
    Rows,
    Table,
    json_rows,
    offsets_of,
    record_rows,
)
from forebay.deliver.targets.postgresql.settings import UnknownFields, Value
from tests.support.targets.memory_source import EVENT_TIME, MemoryRecord

TYPES = {"id": "bigint", "price": "numeric", "tags": "jsonb", "name": "text"}


def batch(*values: bytes, first: int = 0) -> Batch:
    return Batch("orders", "i", 3, tuple(MemoryRecord(first + n, value) for n, value in enumerate(values)))


def rows_of(rows: Rows) -> list[tuple[str | None, ...]]:
    """Read lines as the manual of PostgreSQL describes the text format of COPY."""
    *lines, rest = rows.lines.decode().split("\n")
    assert rest == ""
    return [tuple(_cell(cell) for cell in line.split("\t")) for line in lines]


def _cell(text: str) -> str | None:
    characters = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
    if text == "\\N":
        return None
    return re.sub(r"\\(.)", lambda found: characters.get(found[1], found[1]), text)


def cells(*values: bytes) -> list[tuple[tuple[str, ...], list[tuple[str | None, ...]]]]:
    return [(one.columns, rows_of(one)) for one in json_rows(batch(*values), Table(TYPES), UnknownFields.REJECT)]


def test_a_record_is_a_row_with_its_position() -> None:
    record = MemoryRecord(7, b"{}", b"k", [("a", b"1"), ("b", b"\xff"), ("c\0", b"\0\x05")], EVENT_TIME)
    [found] = record_rows(Batch("orders", "i", 3, (record,)), Value.JSONB)

    [(*position, time, key, value, headers)] = rows_of(found)
    assert position == ["i", "3", "7"]
    assert time is not None
    assert datetime.fromisoformat(time) == EVENT_TIME
    assert (key, value) == ("\\x6b", "{}")
    assert json.loads(headers or "") == [["a", "1"], ["b", "\ufffd"], ["c\ufffd", "\ufffd\x05"]]


def test_absent_fields_of_a_record_are_null_and_empty_ones_are_empty() -> None:
    records = (MemoryRecord(0, b"", None, [], None), MemoryRecord(1, b"", b"", [], datetime(1, 1, 1, tzinfo=UTC)))
    [found] = record_rows(Batch("orders", "i", 3, records), Value.BYTEA)

    assert [row[3:] for row in rows_of(found)] == [
        (None, None, "\\x", None),
        ("0001-01-01T00:00:00+00:00", "\\x", "\\x", None),
    ]


@given(st.lists(st.binary()))
def test_every_byte_of_a_value_is_kept(values: list[bytes]) -> None:
    for found in record_rows(batch(*values), Value.BYTEA):
        assert [bytes.fromhex((row[5] or "")[2:]) for row in rows_of(found)] == values


TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from("\\\t\n\rN."))


@given(st.lists(TEXTS, min_size=1))
def test_every_character_of_a_text_is_kept(values: list[str]) -> None:
    [found] = record_rows(batch(*[value.encode() for value in values]), Value.TEXT)

    assert [row[5] for row in rows_of(found)] == values


OF_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=5,
)


@given(st.lists(st.dictionaries(st.sampled_from(sorted(TYPES)), OF_JSON, min_size=1), min_size=1), st.booleans())
def test_every_field_of_an_object_is_kept(objects: list[dict[str, object]], is_ascii: bool) -> None:
    found = [
        dict(zip(columns, row, strict=True))
        for columns, rows in cells(*[json.dumps(one, ensure_ascii=is_ascii).encode() for one in objects])
        for row in rows
    ]

    assert len(found) == len(objects)
    for row, given_ in zip(found, objects, strict=True):
        assert set(row) == set(given_)
        for name, value in given_.items():
            cell = row[name]
            if value is None:
                assert cell is None
            elif isinstance(value, str) and name != "tags":
                assert cell == value
            else:
                assert cell is not None
                assert json.loads(cell) == value


@pytest.mark.parametrize("value", [Value.TEXT, Value.JSONB])
def test_bytes_that_are_no_text_have_no_row_of_text(value: Value) -> None:
    with pytest.raises(RowInvalid, match="not UTF-8"):
        list(record_rows(batch(b"\xff"), value))


def test_rows_with_the_same_fields_are_written_together_in_order() -> None:
    found = cells(b'{"id": 1, "name": "a"}', b'{"name": "b", "id": 2}', b'{"id": 3}', b'{"id": 4, "name": null}')

    assert found == [
        (("id", "name"), [("1", "a"), ("2", "b")]),
        (("id",), [("3",)]),
        (("id", "name"), [("4", None)]),
    ]


def test_numbers_keep_their_digits_and_structures_are_json() -> None:
    digits = "0.10000000000000000000001"
    [(columns, rows)] = cells(f'{{"price": {digits}, "tags": {{"a": [{digits}, 1e400, true]}}, "name": [1]}}'.encode())

    assert columns == ("price", "tags", "name")
    assert rows == [(digits, f'{{"a": [{digits}, 1e400, true]}}', "[1]")]


def test_many_rows_come_in_blocks_in_order() -> None:
    found = cells(*[b'{"id": %d}' % number for number in range(2 * ROWS_AT_ONCE + 1)])

    assert [len(rows) for _, rows in found] == [ROWS_AT_ONCE, ROWS_AT_ONCE, 1]
    assert [row for _, rows in found for row in rows] == [(str(number),) for number in range(2 * ROWS_AT_ONCE + 1)]


def test_white_space_around_an_object_is_no_part_of_it() -> None:
    assert cells(b' {"id": 1}', b'{"id": 2}\r\n', b'\t{"id": 3} ') == [(("id",), [("1",), ("2",), ("3",)])]


@pytest.mark.parametrize("depth", [100, 800, 5_000])
def test_a_value_that_is_nested_too_deeply_for_the_interpreter_is_invalid(depth: int) -> None:
    nested = "[" * depth + "]" * depth
    try:
        found = cells(f'{{"tags": {nested}}}'.encode())
    except RowInvalid as error:
        if depth == 100 or str(error) not in ("the value is nested too deeply", "the value is not JSON"):
            raise
    else:
        assert found == [(("tags",), [(nested,)])]


def test_a_boolean_is_no_number() -> None:
    assert cells(b'{"name": true, "tags": false}') == [(("tags", "name"), [("false", "true")])]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"{", "the value is not JSON"),
        (b'{"id": }', "the value is not JSON"),
        (b'{"id": 1}{"id": 2}', "the value is not JSON"),
        (b'{"name": "\\ud800"}', "the value has an unpaired surrogate"),
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


@pytest.mark.parametrize(
    ("last", "message"),
    [
        (b'{"id": 3}', "the field 'name' of the key is missing"),
        (b'{"name": null, "id": 3}', "the field 'name' of the key is null"),
        (b'{"name": "c", "id": null}', "the field 'id' of the key is null"),
    ],
)
def test_a_row_needs_all_fields_of_a_key(last: bytes, message: str) -> None:
    table = Table(TYPES, ("name", "id"))
    values = [b'{"id": 1, "name": "a", "price": null}', b'{"id": 2, "name": "b", "price": 1}']
    assert len(list(json_rows(batch(*values), table, UnknownFields.REJECT))) == 1

    with pytest.raises(RowInvalid) as error:
        list(json_rows(batch(*values, last), table, UnknownFields.REJECT))

    assert str(error.value) == message


def test_a_null_is_part_of_a_key_whose_nulls_are_equal() -> None:
    table = Table(TYPES, ("name",), nulls_equal=True)

    [found] = json_rows(batch(b'{"name": null}'), table, UnknownFields.REJECT)

    assert rows_of(found) == [(None,)]


def test_only_records_outside_of_the_delivered_ranges_are_left() -> None:
    given = batch(b"0", b"1", b"2", b"3", b"4", first=10)

    assert offsets_of(given, []) is given
    assert offsets_of(given, [(0, 15)]) is None
    left = offsets_of(given, [(0, 11), (13, 14)])
    assert left is not None
    assert [record.offset for record in left.records] == [11, 12, 14]
