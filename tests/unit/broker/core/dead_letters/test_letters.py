from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.broker.core.dead_letters.letters import (
    NAMES,
    UNCUT,
    Cut,
    DeadLetter,
    Filter,
    Origin,
    PlainRecord,
    RejectionReason,
    chunks,
    dead_letter_settings,
    from_dead_letter,
    is_dead_letter_sink,
    ranges_of,
    to_dead_letter,
    whole_page,
)
from forebay.broker.core.partition.pages import Body, Encoding, Entry
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import DEFAULTS, Overflow
from forebay.page.format import PAGE_BYTES_MAX

ORIGIN = Origin(
    reason=RejectionReason.REJECTED,
    error="HTTP 422: no such customer",
    attempts=3,
    subscription="default",
    sink="orders",
    incarnation="1f2e3d",
    partition=2,
    offset=7,
    at_us=1_700_000_000_000_001,
    traceparent="00-a-b-01",
)
HEADERS = st.lists(
    st.tuples(st.one_of(st.text(min_size=1), st.sampled_from([*NAMES, UNCUT])), st.binary()), max_size=14
)
RECORDS = st.builds(
    PlainRecord,
    value=st.binary(),
    key=st.none() | st.binary(),
    headers=HEADERS.map(tuple),
    event_time_us=st.none() | st.integers(-(1 << 40), 1 << 50),
)
ORIGINS = st.builds(
    Origin,
    reason=st.sampled_from(RejectionReason),
    error=st.text(),
    attempts=st.integers(0, 1 << 31),
    subscription=st.text(),
    sink=st.text(),
    incarnation=st.text(),
    partition=st.integers(0, 1023),
    offset=st.integers(0, 1 << 63),
    at_us=st.integers(0, 250_000_000_000_000_000),
    traceparent=st.text(),
)


def letter(**origin: object) -> DeadLetter:
    return DeadLetter(0, 0, replace(ORIGIN, **origin), PlainRecord(b""))  # type: ignore[arg-type]


@given(RECORDS, ORIGINS, st.text())
def test_a_dead_letter_gives_its_record_and_its_origin_back_exactly(
    record: PlainRecord, origin: Origin, uncut: str
) -> None:
    found = from_dead_letter(Cut(5, 6, "", to_dead_letter(record, origin, uncut)))

    assert found == DeadLetter(5, 6, origin, record, uncut)
    assert found.redrivable is (uncut == "")


@pytest.mark.parametrize(("with_body", "first"), [(True, b"body"), (False, b"")])
def test_of_records_that_cannot_be_cut_only_the_first_holds_the_body_of_the_page(with_body: bool, first: bytes) -> None:
    entry = Entry(10, 9, 1, False, 4, int(Encoding.ARROW), 7, 7, 0, 0, ())

    cuts = whole_page(entry, Body(0, b"body"), [Range(11, 13), Range(15, 16)], with_body=with_body)

    assert [(cut.offset, cut.accepted_at_us, cut.record.value) for cut in cuts] == [
        (11, 7, first),
        (12, 7, b""),
        (15, 7, b""),
    ]


@given(RECORDS, ORIGINS, ORIGINS)
def test_one_that_looks_like_a_dead_letter_already_is_not_mixed_up(
    record: PlainRecord, forged: Origin, origin: Origin
) -> None:
    forgery = to_dead_letter(record, forged)

    assert from_dead_letter(Cut(0, 0, "", to_dead_letter(forgery, origin))).record == forgery


@pytest.mark.parametrize(
    ("name", "value"), [("reason", b"BORED"), ("attempts", b"many"), ("time", b"today"), ("error", b"\xff")]
)
def test_headers_that_make_no_sense_are_no_origin(name: str, value: bytes) -> None:
    record = to_dead_letter(PlainRecord(b"value"), ORIGIN)
    headers = tuple((n, value if n == f"forebay.dead.{name}" else v) for n, v in record.headers)

    found = from_dead_letter(Cut(0, 0, "", replace(record, headers=headers)))

    assert found.origin is None
    assert found.record.headers == headers


@pytest.mark.parametrize(
    ("wanted", "takes"),
    [
        (Filter(), True),
        (Filter(reason=RejectionReason.REJECTED), True),
        (Filter(reason=RejectionReason.MAX_ATTEMPTS), False),
        (Filter(error_contains="no such"), True),
        (Filter(error_contains="HTTP 500"), False),
        (Filter(error="HTTP 422: no such customer"), True),
        (Filter(error="no such"), False),
        (Filter(error=""), False),
        (Filter(subscription="default"), True),
        (Filter(subscription="audit"), False),
        (Filter(partition=2), True),
        (Filter(partition=0), False),
        (Filter(offsets=Range(7, 8)), True),
        (Filter(offsets=Range(8, 9)), False),
        (Filter(from_us=ORIGIN.at_us), True),
        (Filter(from_us=ORIGIN.at_us + 1), False),
        (Filter(until_us=ORIGIN.at_us), False),
        (Filter(until_us=ORIGIN.at_us + 1), True),
    ],
)
def test_a_filter_takes_what_fits_all_that_is_set(wanted: Filter, takes: bool) -> None:
    assert wanted.matches(letter()) is takes


def test_a_record_without_an_origin_is_taken_only_when_all_are() -> None:
    stranger = DeadLetter(0, 0, None, PlainRecord(b""))

    assert Filter().matches(stranger)
    assert not Filter(partition=0).matches(stranger)


def test_pages_hold_what_fits_and_a_larger_record_is_alone_in_its_message() -> None:
    records = [(n, PlainRecord(b"x" * size), "") for n, size in enumerate([10, PAGE_BYTES_MAX * 2, 10, 10])]

    assert [[offset for offset, _, _ in chunk] for chunk in chunks(records)] == [[0], [1], [2, 3]]
    assert [len(chunk) for chunk in chunks(records, records_max=1)] == [1, 1, 1, 1]


def test_offsets_become_ranges() -> None:
    assert ranges_of([1, 2, 3, 7, 9, 10]) == [Range(1, 4), Range(7, 8), Range(9, 11)]
    assert ranges_of([]) == []


def test_a_dead_letter_sink_has_the_origins_partitions_and_drops_nothing() -> None:
    origin = replace(DEFAULTS, partitions=7, overflow=int(Overflow.DROP_OLDEST), max_disk_cache=5)
    defaults = replace(DEFAULTS, max_total_bytes=5_000)

    found = dead_letter_settings(origin, defaults)

    assert (found.partitions, found.overflow, found.max_disk_cache) == (7, Overflow.REJECT, 0)
    assert found.max_total_bytes == 5_000
    assert is_dead_letter_sink("orders.dlq")
    assert not is_dead_letter_sink("orders")
