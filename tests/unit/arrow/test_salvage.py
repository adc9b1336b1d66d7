"""Of a page with a few rows that cannot be read the others are read, and nothing of a page that is not sound."""

from __future__ import annotations

import pyarrow as pa
import pytest

from forebay.arrow import RowsUnreadable, coded, encode_batches, encode_schema, readable_rows
from forebay.arrow.ipc import unvalidated_rows
from forebay.arrow.salvage import Unreadable
from tests.support.pages.invalid_text import unchecked_strings

TEXT = unchecked_strings([b"a", b"\xff", b"\xfe", b"d", None, b"\xfd"])
BATCH = pa.record_batch({"id": list(range(6)), "s": TEXT})
NOT_UTF8 = "column s: the string is not UTF-8"


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_rows_beside_text_that_is_not_utf8_are_read(compression: str) -> None:
    found = readable_rows(encode_schema(BATCH.schema), encode_batches([BATCH], compression), 6)  # type: ignore[arg-type]

    found.batch.validate(full=True)
    assert found.batch.to_pylist() == [{"id": 0, "s": "a"}, {"id": 3, "s": "d"}, {"id": 4, "s": None}]
    assert found.unreadable == (Unreadable(1, 3, NOT_UTF8), Unreadable(5, 6, NOT_UTF8))


def test_columns_with_a_dictionary_are_read_too() -> None:
    rows, places = coded(BATCH, ["s"], auto=False)

    found = readable_rows(encode_schema(BATCH.schema), encode_batches([rows]), 6, places)

    assert found.batch.column("id").to_pylist() == [0, 3, 4]


def test_rows_beside_times_that_no_day_has_are_read() -> None:
    times = pa.array([1, 2**31 - 1, 3, 4, -1, 6], pa.int32()).view(pa.time32("s"))
    nested = pa.array([{"t": t} for t in (1, 2, 3, 4, 5, 6)], pa.struct([("t", pa.int64())]))
    batch = pa.record_batch({"t": times, "n": nested})

    found = readable_rows(encode_schema(batch.schema), encode_batches([batch]), 6)

    assert [(part.first, part.end) for part in found.unreadable] == [(1, 2), (4, 5)]
    assert "not within the acceptable range" in found.unreadable[0].reason
    assert found.batch.column("n").to_pylist() == [{"t": 1}, {"t": 3}, {"t": 4}, {"t": 6}]


def test_a_part_of_the_page_has_the_readable_rows_of_it() -> None:
    found = readable_rows(encode_schema(BATCH.schema), encode_batches([BATCH]), 6)

    parts = [(0, 6), (0, 2), (1, 3), (2, 5), (5, 6)]
    assert [found.between(*part).column("id").to_pylist() for part in parts] == [[0, 3, 4], [0], [], [3, 4], []]


def test_a_page_without_any_readable_row_is_unreadable() -> None:
    batch = pa.record_batch({"s": unchecked_strings([b"\xff", b"\xfe"])})

    with pytest.raises(RowsUnreadable, match="Invalid UTF8"):
        readable_rows(encode_schema(batch.schema), encode_batches([batch]), 2)


def test_a_page_whose_structure_is_not_sound_is_unreadable_and_no_offset_is_followed() -> None:
    batch = pa.record_batch({"s": pa.array(["a", "b", "c"])})
    offsets = b"".join(n.to_bytes(4, "little") for n in (0, 1, 2, 3))
    wrong = encode_batches([batch]).replace(offsets, b"".join(n.to_bytes(4, "little") for n in (0, 1 << 30, 2, 3)))

    with pytest.raises(RowsUnreadable):
        readable_rows(encode_schema(batch.schema), wrong, 3)


def test_a_row_that_cannot_be_read_is_cut_out_with_its_bytes() -> None:
    schema = encode_schema(BATCH.schema)

    cut = readable_rows(schema, encode_batches([BATCH]), 6).row_messages(2)

    row = unvalidated_rows(schema, cut, 1)
    assert row.column("id").to_pylist() == [2]
    assert row.column("s").cast(pa.binary()).to_pylist() == [b"\xfe"]
