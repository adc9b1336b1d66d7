"""A run makes the records that iteration over its delivery gives."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from forebay.client import Encoding, PagePart, StoredPage
from forebay.client.consume.delivered_run import DeliveredRun
from forebay.client.consume.in_flight import InFlight
from forebay.page.columns import Columns

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
PAGE = StoredPage(
    2,
    100,
    10,
    Encoding.RECORDS,
    b"",
    (PagePart(100, NOON, ""), PagePart(104, NOON + timedelta(seconds=1), "")),
    102,
    105,
)


def run(columns: Columns) -> DeliveredRun:
    state = InFlight(
        partition=2, incarnation="i", owner_epoch=7, revision=3, pages=(PAGE,), attempts={103: 4}, resend=True
    )
    return DeliveredRun(state, PAGE, columns)


FULL = Columns(
    [b"a", b"", b"ccc", b"dd"],
    [b"k", None, b"", b"kk"],
    [0, None, 2_000_000, 3],
    [((("h", b"1")),), (), (), (("x", b""),)],
    {1: "damaged"},
)


def test_a_record_has_what_its_delivery_and_its_column_say() -> None:
    first, second, third, _ = run(FULL)

    assert (first.partition, first.offset, first.key, first.value, first.headers) == (
        2,
        102,
        b"k",
        b"a",
        (("h", b"1"),),
    )
    assert (first.resend, first.owner_epoch, first.revision, first.incarnation) == (True, 7, 3, "i")
    assert [one.attempt for one in (first, second)] == [0, 4]
    assert [one.unreadable for one in (first, second)] == ["", "damaged"]
    assert [one.accepted_at for one in (first, third)] == [NOON, NOON + timedelta(seconds=1)]
    assert third.event_time == datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)


def test_a_part_has_the_same_records_with_their_own_times_attempts_and_reasons() -> None:
    whole = run(FULL)

    part = whole.part(1, 3)

    assert list(part) == list(whole)[1:3]
    assert (part.first_offset, len(part), dict(part.unreadable)) == (103, 2, {0: "damaged"})
    assert list(part.part(1, 2)) == list(whole)[2:3]
    assert (part.page.first_offset, part.page.last_offset) == (103, 104)


def test_the_size_of_a_record_is_that_of_key_and_value() -> None:
    assert run(FULL).sizes() == [2, 0, 3, 4]
    assert run(Columns([b"a", b""], None, None, None)).sizes() == [1, 0]


def test_a_run_shows_its_place_and_no_contents() -> None:
    assert repr(run(FULL)) == "<DeliveredRun partition=2 offsets=102-105>"
