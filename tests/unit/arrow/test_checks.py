"""Rows that pass the check can be read back; the others are named."""

from __future__ import annotations

import pyarrow as pa
import pytest

from forebay.arrow import RowInvalid, checked, decode_rows, encode_batches, encode_schema
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
