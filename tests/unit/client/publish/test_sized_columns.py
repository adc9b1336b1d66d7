"""Columns whose sizes are taken once."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.client import InvalidPage
from forebay.client.publish.pages import encode_columns
from forebay.client.publish.sized_columns import SizedColumns, check_types
from forebay.page.numbers import is_one_size, lengths_of

OF_ONE_SIZE = st.integers(0, 5).flatmap(lambda size: st.lists(st.binary(min_size=size, max_size=size), max_size=20))
VALUES = OF_ONE_SIZE | st.lists(st.binary(max_size=5), max_size=20)


@given(VALUES)
def test_lengths_are_those_of_the_values(values: list[bytes]) -> None:
    lengths = lengths_of(values)

    assert list(lengths) == [len(value) for value in values]
    assert is_one_size(lengths) == (len({len(value) for value in values}) == 1)


@given(VALUES, st.lists(st.none() | st.binary(max_size=4), min_size=20, max_size=20) | st.none(), st.data())
def test_any_part_is_as_large_and_encodes_as_its_own_records(
    values: list[bytes], keys: list[bytes | None] | None, data: st.DataObject
) -> None:
    keys = None if keys is None else keys[: len(values)]
    columns = SizedColumns.of(values, keys)
    sizes = [len(value) + len(key or b"") for value, key in zip(values, keys or [None] * len(values), strict=True)]
    first = data.draw(st.integers(0, len(values)))
    end = data.draw(st.integers(first, len(values)))

    assert list(columns.ends) == list(accumulate(sizes, initial=0))
    assert columns.largest() == max(sizes, default=0)
    assert columns.size(first, end) == sum(sizes[first:end])
    if first < end:
        expected = encode_columns(values[first:end], None if keys is None else keys[first:end])
        assert columns.encode(first, end) == expected


@pytest.mark.parametrize("wrong", ["text", 7, None, bytearray(b"x"), memoryview(b"x")])
def test_a_value_or_key_that_is_not_bytes_is_refused_by_the_type_check(wrong: object) -> None:
    with pytest.raises(InvalidPage, match="must be bytes"):
        check_types([b"a", wrong], None)  # type: ignore[list-item]
    if wrong is not None:
        with pytest.raises(InvalidPage, match="must be bytes"):
            check_types([b"a", b"b"], [None, wrong])  # type: ignore[list-item]
    check_types([b"a", b"b"], [None, b"k"])
