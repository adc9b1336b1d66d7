from __future__ import annotations

from dataclasses import replace

import pytest

from forebay.broker.core.delivery.leased_sets import (
    DURATION_US,
    RANGES_MAX,
    RECORDS,
    RECORDS_MAX,
    Room,
    Wanted,
    checked_holder,
    lease_us,
)
from forebay.broker.core.partition.ranges import Range
from forebay.errors.reasons import Reason
from tests.support.pages.samples import entry
from tests.support.refusals import refusal

PAGE = replace(entry(1), size=100)


@pytest.mark.parametrize("name", ["job-1", "spark-0a:17", "A._:-9", "x" * 128])
def test_a_holder_has_a_name(name: str) -> None:
    assert checked_holder(name) == name


@pytest.mark.parametrize("name", ["", "x" * 129, "two words", "umlaut-\u00e4", "line\n"])
def test_an_invalid_name_of_a_holder_is_refused(name: str) -> None:
    with refusal(Reason.INVALID_LEASE, match="holder = .*: must be 1 to 128"):
        checked_holder(name)


def test_a_lease_is_as_long_as_asked_or_else_as_a_delivery_has_within_the_bounds() -> None:
    low, high = DURATION_US
    assert [lease_us(requested, 7) for requested in (low, high)] == [low, high]
    assert [lease_us(None, deadline) for deadline in (1, low + 1, high + 1)] == [low, low + 1, high]
    for requested in (0, low - 1, high + 1):
        with refusal(Reason.INVALID_LEASE, match="1 s to 24 h"):
            lease_us(requested, low)


def test_a_set_has_the_usual_number_of_records_unless_its_holder_says_otherwise() -> None:
    assert Wanted(0, 5, before_due=True).checked() == Wanted(RECORDS, 5, before_due=True)
    assert Wanted(RECORDS_MAX).checked().records == RECORDS_MAX
    with refusal(Reason.INVALID_LEASE, match="max_records = 1000001: must be up to 1000000"):
        Wanted(RECORDS_MAX + 1).checked()


def test_a_set_is_full_when_its_records_are_taken() -> None:
    room = Room(Wanted(3))
    room.add(PAGE, [Range(0, 2)])
    assert room.fits(PAGE)
    room.add(PAGE, [Range(4, 5)])
    assert room.full
    assert not room.fits(PAGE)


def test_the_first_page_always_fits_and_a_further_one_only_with_its_bytes() -> None:
    room = Room(Wanted(10, size=150))
    assert room.fits(replace(PAGE, size=1_000))
    room.add(PAGE, [Range(0, 1)])
    assert room.fits(replace(PAGE, size=50))
    assert not room.fits(replace(PAGE, size=51))


def test_a_page_of_which_nothing_was_taken_costs_nothing() -> None:
    room = Room(Wanted(10, size=100))
    room.add(PAGE, [])
    assert room.fits(replace(PAGE, size=1_000))


def test_a_set_is_bounded_in_ranges() -> None:
    room = Room(Wanted(RECORDS_MAX))
    room.add(PAGE, [Range(2 * number, 2 * number + 1) for number in range(RANGES_MAX)])
    assert room.full
