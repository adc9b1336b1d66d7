from __future__ import annotations

from forebay.broker.core.partition.expiry import expired
from tests.support.pages.samples import entry


def test_entries_accepted_before_the_given_time_are_expired() -> None:
    entries = [entry(0, age_us=1), entry(1, age_us=4), entry(2, age_us=5), entry(3, age_us=6)]

    assert [found.base for found in expired(entries, 5, ())] == [0, 1]


def test_nothing_is_too_old_where_the_first_is_not() -> None:
    assert expired([entry(0, age_us=5)], 5, ()) == []
    assert expired([], 5, ()) == []


def test_entries_in_flight_are_not_expired() -> None:
    entries = [entry(0), entry(1), entry(2)]

    assert [found.base for found in expired(entries, 1, {0, 2})] == [1]


def test_the_first_that_is_young_enough_ends_the_search() -> None:
    """A stamp that is a little lower after it, as after a crash, goes with the next look."""
    assert expired([entry(0, age_us=5), entry(1, age_us=4)], 5, ()) == []
