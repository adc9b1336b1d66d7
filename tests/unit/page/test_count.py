from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.page.count import count_records
from forebay.page.format import HEADERS_MAX, NO_KEY, NO_TIME, RUNS_MAX, SMALL_BYTES, TIMES_US
from forebay.v1 import record_pb2

PADDING = b"x" * SMALL_BYTES
"""A first value that makes a body large enough to be scanned by its tags."""


def run(values: list[bytes], keys: list[bytes | None] | None = None, times: list[int] | None = None) -> bytes:
    columns = record_pb2.RecordRun(value_lengths=[len(value) for value in values], values=b"".join(values))
    if keys is not None:
        columns.key_lengths.extend(NO_KEY if key is None else len(key) for key in keys)
        columns.keys = b"".join(key for key in keys if key)
    columns.event_times_us.extend(times or [])
    return record_pb2.RecordPage(runs=[columns]).SerializeToString()


RECORDS = st.lists(
    st.tuples(st.binary(max_size=40), st.none() | st.binary(max_size=8), st.integers(*TIMES_US) | st.just(NO_TIME)),
    max_size=20,
)


@given(runs=st.lists(RECORDS, max_size=3), keyed=st.booleans(), timed=st.booleans())
def test_the_records_of_all_runs_are_counted(
    runs: list[list[tuple[bytes, bytes | None, int]]], keyed: bool, timed: bool
) -> None:
    body = run([PADDING])
    for records in runs:
        values, keys, times = [one[0] for one in records], [one[1] for one in records], [one[2] for one in records]
        body += run(values, keys if keyed else None, times if timed else None)

    assert count_records(body) == 1 + sum(map(len, runs))


def test_the_form_of_a_body_does_not_matter() -> None:
    plain = run([PADDING, b"abc"], [b"k", None])
    columns = record_pb2.RecordPage.FromString(plain).runs[0]
    unpacked = b"".join(b"\x0d" + length.to_bytes(4, "little") for length in columns.value_lengths)
    rest = record_pb2.RecordRun(values=columns.values, key_lengths=columns.key_lengths, keys=columns.keys)
    content = rest.SerializeToString() + unpacked
    assert len(content) < 1 << 14

    other = b"\x0a" + bytes([len(content) & 0x7F | 0x80, len(content) >> 7]) + content

    assert count_records(other) == count_records(plain) == 2


def test_a_page_with_headers_is_counted() -> None:
    page = record_pb2.RecordPage.FromString(run([PADDING, b"abc"]))
    page.runs[0].headers.extend([record_pb2.Headers(), record_pb2.Headers()])

    assert count_records(page.SerializeToString()) == 2


@pytest.mark.parametrize("padding", [b"", PADDING])
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda columns: columns.value_lengths.append(1), "lengths of the values"),
        (lambda columns: columns.key_lengths.append(1), "as many keys"),
        (lambda columns: columns.key_lengths.extend([2, NO_KEY]), "lengths of the keys"),
        (lambda columns: columns.event_times_us.append(1), "as many event times"),
        (lambda columns: columns.event_times_us.extend([1, 1_700_000_000_000_000_000]), "outside of the years"),
        (lambda columns: columns.event_times_us.extend([NO_TIME, TIMES_US[0] - 1]), "outside of the years"),
        (lambda columns: columns.event_times_us.extend([NO_TIME + 1, NO_TIME]), "outside of the years"),
    ],
)
def test_columns_that_are_no_good_are_refused(padding: bytes, change, problem: str) -> None:  # type: ignore[no-untyped-def]
    page = record_pb2.RecordPage.FromString(run([padding, b"abc"]))
    change(page.runs[0])

    with pytest.raises(ValueError, match=problem):
        count_records(page.SerializeToString())


@given(seed=st.integers(0, 2**32), flips=st.integers(1, 4))
def test_a_damaged_body_is_refused_or_counted_as_protobuf_would(seed: int, flips: int) -> None:
    chance = random.Random(seed)
    body = bytearray(run([PADDING, b"abc", b"d"], [b"k", None, b"kk"], [1, 2, 3]))
    for _ in range(flips):
        body[chance.choice([*range(30), *range(len(body) - 60, len(body))])] ^= 1 << chance.randrange(8)

    assert outcome(bytes(body)) == by_protobuf(bytes(body))


@given(
    size=st.integers(0, 9), count=st.integers(1, 1100), longer=st.integers(-2, 2), at=st.none() | st.integers(0, 1099)
)
def test_lengths_of_one_size_add_up_as_protobuf_would_find(size: int, count: int, longer: int, at: int | None) -> None:
    lengths = [size] * count
    if at is not None:
        lengths[at % count] += 1
    values = bytes(max(0, sum(lengths) + longer))
    body = record_pb2.RecordPage(runs=[record_pb2.RecordRun(value_lengths=lengths, values=values)]).SerializeToString()

    assert outcome(run([PADDING]) + body) == by_protobuf(run([PADDING]) + body)
    assert (outcome(run([PADDING]) + body) is None) == (len(values) != sum(lengths))


def outcome(body: bytes) -> int | None:
    try:
        return count_records(body)
    except ValueError:
        return None


def by_protobuf(body: bytes) -> int | None:
    """Counts by protobuf alone: an unknown field, which changes nothing, prevents the fast way."""
    return outcome(b"\x78\x01" + body)


@pytest.mark.parametrize("end", [b"", b"\x78\x01"], ids=["usual", "unusual"])
def test_a_page_of_more_runs_than_any_writer_needs_is_refused(end: bytes) -> None:
    count_records(run([b"x"]) * RUNS_MAX + end)

    with pytest.raises(ValueError, match="runs"):
        count_records(run([b"x"]) * (RUNS_MAX + 1) + end)


@pytest.mark.parametrize("size", [1_000, 2_000_000])
def test_a_record_of_nothing_but_headers_is_refused_before_they_are_decoded(size: int) -> None:
    headers = record_pb2.Headers(entries=[record_pb2.Header()] * size)
    columns = record_pb2.RecordRun(value_lengths=[len(PADDING)], values=PADDING, headers=[headers])

    with pytest.raises(ValueError, match=r"at most (64|1024)"):
        count_records(record_pb2.RecordPage(runs=[columns]).SerializeToString())


def with_headers(*headers: record_pb2.Headers, runs: int = 1) -> bytes:
    columns = record_pb2.RecordPage.FromString(run([PADDING] + [b"abc"] * (len(headers) - 1))).runs[0]
    columns.headers.extend(headers)
    return record_pb2.RecordPage(runs=[columns] * runs).SerializeToString()


def named(*values: bytes) -> record_pb2.Headers:
    return record_pb2.Headers(entries=[record_pb2.Header(key="name", value=value) for value in values])


def test_a_page_whose_headers_have_one_layout_is_counted_without_protobuf() -> None:
    body = with_headers(named(b"a", b"bc"), named(b"d", b"ef"), runs=2)

    assert count_records(body, check_size=lambda _: pytest.fail("protobuf would read it")) == 4


@pytest.mark.parametrize("other", [named(b"a"), named(b"a", b"bcd"), named(b"ab", b"c")], ids=["less", "more", "moved"])
def test_a_page_with_headers_of_several_layouts_is_counted(other: record_pb2.Headers) -> None:
    seen: list[bytes] = []
    body = with_headers(named(b"a", b"bc"), other, named(b"d", b"ef"))

    assert count_records(body, check_size=seen.append) == 3
    assert seen == [body]


@given(
    sizes=st.lists(st.integers(0, 3), max_size=3),
    count=st.integers(1, 4),
    missing=st.integers(0, 1),
    at=st.integers(0, 200),
    byte=st.integers(0, 255),
)
def test_damaged_headers_of_one_layout_are_refused_or_counted_as_protobuf_would(
    sizes: list[int], count: int, missing: int, at: int, byte: int
) -> None:
    page = record_pb2.RecordPage.FromString(with_headers(*[named(*map(bytes, sizes))] * count))
    page.runs[0].headers.extend([named(*map(bytes, sizes))] * missing)
    body = bytearray(page.SerializeToString())
    body[-1 - at] = byte

    found, expected = (counted(bytes(body)), counted(b"\x78\x01" + bytes(body)))

    assert found == expected


def counted(body: bytes) -> int | str:
    try:
        return count_records(body)
    except ValueError as refusal:
        return str(refusal)


def test_one_header_too_many_is_refused_where_all_records_have_one_layout() -> None:
    entries = [record_pb2.Header(key="n")] * (HEADERS_MAX + 1)

    assert count_records(with_headers(*[record_pb2.Headers(entries=entries[1:])] * 3)) == 3
    with pytest.raises(ValueError, match="a record has 65 headers: at most 64"):
        count_records(with_headers(*[record_pb2.Headers(entries=entries)] * 3))


def test_more_runs_than_are_allowed_are_left_to_the_check_of_the_size_where_one_has_headers() -> None:
    body = with_headers(named(b"a")) + run([]) * RUNS_MAX
    seen: list[bytes] = []

    count_records(body, check_size=seen.append)

    assert seen == [body]


def test_a_large_record_with_headers_is_checked_for_its_size() -> None:
    columns = record_pb2.RecordRun(value_lengths=[2 << 20], values=bytes(2 << 20), headers=[named(b"a")])
    body = record_pb2.RecordPage(runs=[columns]).SerializeToString()
    seen: list[bytes] = []

    assert count_records(body, check_size=seen.append) == 1
    assert seen == [body]
