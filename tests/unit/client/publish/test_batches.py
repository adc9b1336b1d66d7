"""Gathering records into pages that are never larger than they may be."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from forebay.client.publish.batches import Batch, Batches, PageBounds
from forebay.client.publish.pages import encode_columns
from forebay.client.publish.sized_columns import HELD_BYTES, SizedColumns
from forebay.page.encoding import encode_headers

RECORDS = st.lists(
    st.tuples(
        st.binary(max_size=300),
        st.none() | st.binary(max_size=9),
        st.none() | st.integers(0, 2**50),
        st.lists(st.tuples(st.text(min_size=1, max_size=4), st.binary(max_size=200)), max_size=2).map(encode_headers),
    ),
    min_size=1,
    max_size=60,
)

HEADERS = encode_headers([("h", b"v")])


def batch(partition: int = 0, opened_at: float = 0.0) -> Batch:
    return Batch(partition, opened_at, 1)


@given(RECORDS, st.integers(200, 2000), st.integers(1, 30))
def test_a_page_never_passes_its_bounds_unless_one_record_does_alone(
    records: list[tuple[bytes, bytes | None, int | None, bytes]], body_bytes: int, count: int
) -> None:
    bounds = PageBounds(body_bytes, count)
    pages: list[Batch] = []
    current = batch()
    for value, key, time, headers in records:
        size = len(value) + len(key or b"") + len(headers)
        if not bounds.fits(current, size, is_rich=key is not None or time is not None or bool(headers)):
            pages.append(current)
            current = batch()
        current.add(value, key, time, headers, size, size)
    pages.append(current)

    assert sum(page.count for page in pages) == len(records)
    for page in pages:
        estimate = page.body_bytes
        encoded = page.encode()
        assert len(encoded.body) <= estimate
        assert encoded.record_count <= count
        assert len(encoded.body) <= body_bytes or encoded.record_count == 1


@given(
    st.lists(st.integers(0, 400), min_size=1, max_size=80),
    st.booleans(),
    st.integers(200, 2000),
    st.lists(st.integers(0, 100), max_size=5),
)
def test_as_many_records_are_taken_at_once_as_would_be_one_by_one(
    sizes: list[int], is_rich: bool, body_bytes: int, before: list[int]
) -> None:
    bounds = PageBounds(body_bytes, 30)
    begun, other = batch(), batch()
    for size in before:
        for one in (begun, other):
            one.add(bytes(size), None, None, b"", size, size)
    ends = list(accumulate(sizes, initial=0))

    taken = bounds.count_fitting(begun, ends, 0, is_rich=is_rich)

    expected = 0
    for size in sizes:
        if not bounds.fits(other, size, is_rich=is_rich):
            break
        other.add(bytes(size), b"" if is_rich else None, None, b"", size, size)
        expected += 1
    assert taken == expected


def test_columns_that_begin_late_are_filled_up_for_the_records_before() -> None:
    page = batch()
    page.add(b"a", None, None, b"", 1, 1)
    page.add(b"b", b"k", None, b"", 2, 2)
    page.extend(SizedColumns.of([b"c"], None), 0, 1)
    page.add(b"d", None, 5, HEADERS, 1 + len(HEADERS), 1 + len(HEADERS))
    page.extend(SizedColumns.of([b"e"], [b"l"]), 0, 1)

    assert page.values == [b"a", b"b", b"c", b"d", b"e"]
    assert page.keys == [None, b"k", None, None, b"l"]
    assert page.event_times_us == [None, None, None, 5, None]
    assert page.headers == [b"", b"", b"", HEADERS, b""]


@given(st.lists(st.lists(st.binary(max_size=3) | st.just(b"same"), max_size=6), min_size=1, max_size=6))
def test_a_page_of_records_that_came_one_by_one_and_together_holds_them_all_in_order(groups: list[list[bytes]]) -> None:
    page = batch()
    for group in groups:
        if len(group) == 1:
            page.add(group[0], None, None, b"", len(group[0]), len(group[0]) + HELD_BYTES)
        else:
            page.extend(SizedColumns.of(group, None), 0, len(group))
    values = [value for group in groups for value in group]

    assert page.held_bytes == sum(map(len, values)) + len(values) * HELD_BYTES
    if values:
        assert page.encode().body == encode_columns(values).body


def test_a_page_is_encoded_once_and_releases_its_records() -> None:
    page = batch()
    page.add(b"a", b"k", 1, HEADERS, 2 + len(HEADERS), 2 + len(HEADERS))

    encoded = page.encode()

    assert page.encode() is encoded
    assert page.values == []
    assert page.count == 1


def test_a_batch_is_due_when_it_has_lingered() -> None:
    batches = Batches(PageBounds(1000, 10), linger_s=0.5)
    one = batch(partition=3, opened_at=7.0)
    batches.open(one)

    assert batches.due_at(one) == 7.5
    assert batches.get(3) is one
    assert batches.seal(3) is one
    assert batches.seal(3) is None


def test_the_broker_s_bound_only_lowers_the_user_s() -> None:
    batches = Batches(PageBounds(1000, 10), 0)

    batches.limit(5000)
    assert batches.bounds.body_bytes == 1000
    batches.limit(500)
    assert batches.bounds.body_bytes == 500
    batches.limit(0)
    assert batches.bounds.body_bytes == 500
