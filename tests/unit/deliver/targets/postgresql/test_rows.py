"""A row has the values of a record by column; an invalid one is reported without its contents."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.deliver import Batch
from forebay.deliver.targets.postgresql.rows import RowInvalid, record_rows, remaining
from forebay.deliver.targets.postgresql.settings import Value
from tests.support.targets.copy_rows import TEXTS, batch, rows_of
from tests.support.targets.memory_source import EVENT_TIME, MemoryRecord


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


@given(st.lists(TEXTS, min_size=1))
def test_every_character_of_a_text_is_kept(values: list[str]) -> None:
    [found] = record_rows(batch(*[value.encode() for value in values]), Value.TEXT)

    assert [row[5] for row in rows_of(found)] == values


@pytest.mark.parametrize("value", [Value.TEXT, Value.JSONB])
def test_bytes_that_are_no_text_have_no_row_of_text(value: Value) -> None:
    with pytest.raises(RowInvalid, match="not UTF-8"):
        list(record_rows(batch(b"\xff"), value))


@pytest.mark.parametrize(
    ("delivered", "left"),
    [
        ([], [[10, 11, 12, 13, 14]]),
        ([(0, 15)], []),
        ([(0, 11), (13, 14)], [[11, 12], [14]]),
        ([(11, 12)], [[10], [12, 13, 14]]),
        ([(14, 99)], [[10, 11, 12, 13]]),
        ([(0, 2), (20, 30)], [[10, 11, 12, 13, 14]]),
        ([(12, 13), (10, 11)], [[11], [13, 14]]),
    ],
)
def test_only_records_outside_of_the_delivered_ranges_remain(
    delivered: list[tuple[int, int]], left: list[list[int]]
) -> None:
    parts = remaining(batch(b"0", b"1", b"2", b"3", b"4", first=10), delivered)

    assert [[record.offset for record in part.records] for part in parts] == left
