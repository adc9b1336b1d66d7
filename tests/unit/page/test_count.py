from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.page.count import count_records
from forebay.page.format import NO_KEY, NO_TIME, RUNS_MAX, SMALL_BYTES, TIMES_US
from forebay.v1 import record_pb2

PADDING = b"x" * SMALL_BYTES
"""A first value that makes a body large enough to be looked at by its tags."""


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
