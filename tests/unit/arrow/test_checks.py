"""Rows that pass the check can be read back; the others are named."""

from __future__ import annotations

import pyarrow as pa
import pytest

from forebay.arrow import RowInvalid, checked, decode_rows, encode_batches, encode_schema
from forebay.arrow.checks import begins_beyond
from tests.support.pages.empty_lists import LISTS, no_lists
from tests.support.pages.invalid_text import unchecked_strings


def test_a_valid_batch_is_returned_as_it_is() -> None:
    batch = pa.record_batch({"a": pa.array(["ä", None])})

    assert checked(batch) is batch


def test_a_string_that_is_not_utf8_is_refused_with_its_row_and_column() -> None:
    batch = pa.record_batch({"n": pa.array([1, 2]), "s": unchecked_strings([b"ok", b"Z\xfcrich"])})

    with pytest.raises(RowInvalid, match=r"row 1, column s: the string is not UTF-8, byte 0xfc at position 1") as found:
        checked(batch)

    assert found.value.text is not None


def test_with_replacement_such_a_row_is_accepted_and_can_be_read_back() -> None:
    batch = pa.record_batch({"s": unchecked_strings([b"ok", b"Z\xfcrich"])})

    accepted = checked(batch, replace_text=True)

    back = decode_rows(encode_schema(batch.schema), encode_batches([accepted]), 2)
    assert back.column("s").to_pylist() == ["ok", "Z\ufffdrich"]


def test_a_value_outside_of_the_range_of_its_type_is_refused_with_its_row() -> None:
    late = pa.array([1, 2, 2**31 - 1, 3, 2**31 - 2], pa.int32()).view(pa.time32("s"))
    early = pa.array([1, 2**31 - 1, 3, 4, 5], pa.int32()).view(pa.time32("s"))

    with pytest.raises(RowInvalid, match=r"row 1, column early: time32\[s\] 2147483647 is not within") as found:
        checked(pa.record_batch({"late": late, "early": early}))

    assert found.value.text is None


def test_wrong_bytes_below_a_null_are_left_out_so_that_readers_do_not_meet_them() -> None:
    inside = unchecked_strings([b"ok", b"\xff"])
    struct = pa.StructArray.from_arrays([inside], names=["s"], mask=pa.array([False, True]))
    batch = pa.record_batch([struct], names=["c"])

    accepted = checked(batch)

    back = decode_rows(encode_schema(batch.schema), encode_batches([accepted]), 2)
    assert back.column("c").to_pylist() == [{"s": "ok"}, None]


@pytest.mark.parametrize("kind", LISTS)
def test_no_lists_that_begin_beyond_their_elements_are_found_at_any_depth(kind: pa.DataType) -> None:
    beyond, good = no_lists(kind, first=1 << 18), no_lists(kind, first=0)
    outer = pa.array([0, 0], pa.int32())

    assert begins_beyond(beyond)
    assert not begins_beyond(good)
    for wrong in (beyond, good):
        found = [
            pa.ListArray.from_arrays(outer, wrong),
            pa.FixedSizeListArray.from_arrays(wrong, 2),
            pa.StructArray.from_arrays([wrong], names=["a"]),
            pa.MapArray.from_arrays(outer, pa.array([], pa.string()), wrong),
            pa.DictionaryArray.from_arrays(pa.array([None], pa.int8()), wrong),
        ]
        assert list(map(begins_beyond, found)) == [wrong is beyond] * len(found)


def test_a_list_without_the_buffer_of_its_offsets_begins_nowhere() -> None:
    kind = pa.list_(pa.int32())

    assert not begins_beyond(pa.Array.from_buffers(kind, 0, [None, None], children=[pa.array([], pa.int32())]))


def test_lists_that_readers_refuse_are_refused_of_a_writer_too() -> None:
    column = pa.ListArray.from_arrays(pa.array([0, 0], pa.int32()), no_lists(LISTS[0], first=1 << 18))

    with pytest.raises(RowInvalid, match="row 0, column c: a list without elements begins beyond the elements of its"):
        checked(pa.record_batch({"c": column}))
