"""Strings that are not UTF-8 are found and replaced anywhere in a batch."""

from __future__ import annotations

import pyarrow as pa
import pytest

from forebay.arrow.text import InvalidText, first_invalid, with_valid_text
from tests.support.pages.invalid_text import unchecked_strings

TEXT = unchecked_strings([b"ok", b"M\xfcller", None, b"x"])
STRUCT = pa.StructArray.from_arrays([TEXT, pa.array([1, 2, 3, 4])], names=["a", "b"])
LIST = pa.ListArray.from_arrays(pa.array([0, 1, None, 4], pa.int32()), TEXT)
CASES: dict[str, tuple[pa.Array, InvalidText, list[object]]] = {
    "a string": (TEXT, InvalidText(1, "c", 0xFC, 1), ["ok", "M\ufffdller", None, "x"]),
    "a field of a struct": (
        STRUCT,
        InvalidText(1, "c.a", 0xFC, 1),
        [{"a": "ok", "b": 1}, {"a": "M\ufffdller", "b": 2}, {"a": None, "b": 3}, {"a": "x", "b": 4}],
    ),
    "an element of a list": (LIST, InvalidText(1, "c[]", 0xFC, 1), [["ok"], ["M\ufffdller", None, "x"], None]),
    "an element of a large list": (
        LIST.cast(pa.large_list(pa.string())),
        InvalidText(1, "c[]", 0xFC, 1),
        [["ok"], ["M\ufffdller", None, "x"], None],
    ),
    "an element of a list with a fixed size": (
        pa.FixedSizeListArray.from_arrays(TEXT, 2),
        InvalidText(0, "c[]", 0xFC, 1),
        [["ok", "M\ufffdller"], [None, "x"]],
    ),
    "a key of a map": (
        pa.MapArray.from_arrays(pa.array([0, 0, None, 2], pa.int32()), unchecked_strings([b"k", b"\xff"]), [1, 2]),
        InvalidText(1, "c (keys)", 0xFF, 0),
        [[], [("k", 1), ("\ufffd", 2)], None],
    ),
    "a value of a map": (
        pa.MapArray.from_arrays(pa.array([0, 2], pa.int32()), pa.array([1, 2]), unchecked_strings([b"k", b"\xff"])),
        InvalidText(0, "c (values)", 0xFF, 0),
        [[(1, "k"), (2, "\ufffd")]],
    ),
    "a struct in a list": (
        pa.ListArray.from_arrays(pa.array([0, 1, 4], pa.int32()), STRUCT),
        InvalidText(1, "c[].a", 0xFC, 1),
        [[{"a": "ok", "b": 1}], [{"a": "M\ufffdller", "b": 2}, {"a": None, "b": 3}, {"a": "x", "b": 4}]],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_string_that_is_not_utf8_is_found_with_its_row_and_path(case: str) -> None:
    array, expected, _ = CASES[case]

    assert first_invalid(pa.record_batch([array], names=["c"])) == expected


@pytest.mark.parametrize("case", CASES)
def test_bytes_that_are_not_utf8_are_replaced_and_all_else_is_kept(case: str) -> None:
    array, _, expected = CASES[case]
    batch = pa.record_batch([array], names=["c"])

    replaced = with_valid_text(batch)

    replaced.validate(full=True)
    assert replaced.schema.equals(batch.schema)
    assert replaced.column("c").to_pylist() == expected


def test_the_first_row_is_named_whatever_the_order_of_the_columns() -> None:
    late, early = unchecked_strings([b"a", b"b", b"\xff"]), unchecked_strings([b"a", b"\xfe", b"c"])

    found = first_invalid(pa.record_batch([late, early], names=["late", "early"]))

    assert found == InvalidText(1, "early", 0xFE, 0)


def test_text_outside_of_a_slice_is_not_checked() -> None:
    assert first_invalid(pa.record_batch([LIST.slice(2), TEXT.slice(3)], names=["a", "b"])) is None


def test_lists_with_a_fixed_size_keep_their_nulls() -> None:
    array = pa.FixedSizeListArray.from_arrays(TEXT, 2, mask=pa.array([True, False]))
    wrong = pa.FixedSizeListArray.from_arrays(
        pa.concat_arrays([TEXT, TEXT]), 2, mask=pa.array([False, True, True, False])
    )

    assert with_valid_text(pa.record_batch([array], names=["c"])).column("c").to_pylist() == [None, [None, "x"]]
    assert with_valid_text(pa.record_batch([wrong], names=["c"])).column("c").to_pylist() == [
        ["ok", "M\ufffdller"],
        None,
        None,
        [None, "x"],
    ]
