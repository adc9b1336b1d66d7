from __future__ import annotations

from forebay.broker.core.dead_letters.transfers import Transfers
from forebay.broker.core.partition.cursor import Cursor, Settlement
from forebay.broker.core.partition.ranges import Range

DEAD = Settlement.DEAD_LETTERED


def test_records_in_flight_belong_to_no_consumer_but_the_account_has_not_moved() -> None:
    moving, cursor = Transfers(), Cursor()

    moving.begin([Range(0, 3)])

    assert moving.view_of(cursor).watermark == 3
    assert moving.cursor_to_store(cursor) == cursor
    assert moving.records == 3


def test_only_what_is_sealed_is_written() -> None:
    moving, cursor = Transfers(), Cursor()
    moving.begin([Range(0, 5)])
    moving.queue([Range(0, 2)])
    assert moving.cursor_to_store(cursor) == cursor

    moving.seal([Range(0, 2)], DEAD)

    assert moving.cursor_to_store(cursor) == Cursor(watermark=2, dead_lettered=2)
    assert moving.view_of(cursor).watermark == 5


def test_a_confirmed_transfer_is_no_longer_under_way() -> None:
    moving = Transfers()
    moving.begin([Range(0, 2)])
    moving.queue([Range(0, 2)])
    moving.seal([Range(0, 2)], DEAD)

    assert moving.confirm([Range(0, 2)], DEAD) == [Range(0, 2)]
    assert not moving
    assert moving.confirm([Range(0, 2)], DEAD) == []


def test_only_what_waits_can_be_returned() -> None:
    moving = Transfers()
    moving.begin([Range(0, 4)])
    moving.queue([Range(0, 2)])

    assert moving.cancel(Range(0, 4)) == [Range(2, 4)]
    assert moving.fixed == (Range(0, 2),)
    assert moving.waiting_in(Range(0, 4)) == []


def test_a_transfer_that_a_seek_has_closed_is_not_sealed() -> None:
    moving, cursor = Transfers(), Cursor()
    moving.begin([Range(0, 2)])
    moving.queue([Range(0, 2)])

    moving.close()
    moving.seal([Range(0, 2)], DEAD)

    assert not moving
    assert moving.cursor_to_store(cursor) == cursor


def test_records_that_are_not_there_yet_stay_settled_through_a_seek() -> None:
    moving, cursor = Transfers(), Cursor(start=4, watermark=10)
    moving.seal_ahead(Range(10, 13))

    moving.close()

    assert moving.cursor_to_store(cursor) == Cursor(start=4, watermark=13, skipped=3)
    assert moving.records == 0
    assert moving.confirm_ahead(Range(10, 13)) == [Range(10, 13)]
    assert not moving


def test_the_places_of_pages_are_kept_while_something_of_them_is_under_way() -> None:
    moving = Transfers()
    moving.bases.add(0)
    moving.begin([Range(0, 1)])
    moving.queue([Range(0, 1)])
    assert moving.bases == {0}

    moving.seal([Range(0, 1)], DEAD)
    moving.confirm([Range(0, 1)], DEAD)

    assert moving.bases == set()


def test_it_says_whether_something_of_a_range_is_under_way() -> None:
    moving = Transfers()
    moving.begin([Range(2, 4)])

    assert moving.within(Range(3, 10))
    assert not moving.within(Range(4, 10))
