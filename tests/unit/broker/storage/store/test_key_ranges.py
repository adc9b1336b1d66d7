from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from forebay.broker.storage.store.key_ranges import KeyRanges

KEYS = st.integers(0, 40).map(lambda number: bytes([number]))
SPANS = st.lists(st.tuples(KEYS, KEYS), max_size=12)
EVERY = [bytes([number]) for number in range(41)]


@given(spans=SPANS)
def test_a_set_holds_the_keys_of_all_its_ranges_and_no_other(spans: list[tuple[bytes, bytes]]) -> None:
    ranges = KeyRanges.of(spans)

    assert [key in ranges for key in EVERY] == [any(first <= key < end for first, end in spans) for key in EVERY]


@given(spans=SPANS)
def test_its_ranges_are_sorted_and_do_not_touch(spans: list[tuple[bytes, bytes]]) -> None:
    found = list(KeyRanges.of(spans))

    assert all(first < end for first, end in found)
    assert all(before[1] < after[0] for before, after in itertools.pairwise(found))


@given(spans=SPANS, first=KEYS, last=KEYS)
def test_it_covers_what_lies_in_one_of_its_ranges(spans: list[tuple[bytes, bytes]], first: bytes, last: bytes) -> None:
    first, last = sorted((first, last))
    ranges = KeyRanges.of(spans)

    assert ranges.covers(first, last) == any(low <= first and last < end for low, end in ranges)


@given(spans=SPANS, first=KEYS, last=KEYS)
def test_it_meets_what_has_a_key_in_one_of_its_ranges(
    spans: list[tuple[bytes, bytes]], first: bytes, last: bytes
) -> None:
    first, last = sorted((first, last))
    ranges = KeyRanges.of(spans)

    assert ranges.meets(first, last) == any(key in ranges for key in EVERY if first <= key <= last)


def test_adding_changes_no_set_but_makes_another() -> None:
    empty = KeyRanges()

    assert list(empty.added(b"a", b"c").added(b"c", b"d")) == [(b"a", b"d")]
    assert list(empty) == []


@given(spans=SPANS, more=SPANS)
def test_adding_many_is_adding_one_after_the_other(
    spans: list[tuple[bytes, bytes]], more: list[tuple[bytes, bytes]]
) -> None:
    one_by_one = KeyRanges.of(spans)
    for first, end in more:
        one_by_one = one_by_one.added(first, end)

    assert KeyRanges.of(spans).added_all(more) == one_by_one
