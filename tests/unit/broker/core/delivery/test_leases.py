"""Leases on one partition, by holder."""

from __future__ import annotations

from forebay.broker.core.delivery.in_flight import Flight
from forebay.broker.core.delivery.leases import Leases
from forebay.broker.core.partition.cursor import Cursor, Settlement
from forebay.broker.core.partition.ranges import Range

PAGE = Flight(base=0, first=0, end=0, size=0, unsettled=0, age_us=5, sent_at=9.0)


def leased(**ranges: tuple[int, int]) -> Leases:
    found = Leases()
    for holder, part in ranges.items():
        found.lease(holder, 60.0, PAGE, [Range(*part)])
    return found


def test_a_holder_has_what_it_took_and_neighbours_are_one() -> None:
    leases = leased(a=(0, 2), b=(5, 6))
    leases.lease("a", 90.0, PAGE, [Range(2, 4), Range(8, 9)])

    assert leases.of("a", Cursor()) == [Range(0, 4), Range(8, 9)]
    assert leases.of("nobody", Cursor()) == []
    assert (len(leases), leases.records, leases.bases(), leases.next_timer()) == (4, 6, {0}, 60.0)


def test_the_lease_of_an_offset_is_found_with_its_time() -> None:
    leases = leased(a=(0, 2), b=(5, 6))

    found = leases.at(5)

    assert found is not None
    assert (found[0].holder, found[0].until, found[1].sent_at) == ("b", 60.0, 9.0)
    assert leases.at(3) is None
    assert [(part, lease and lease.holder) for part, lease in leases.within(Range(1, 6))] == [
        (Range(1, 2), "a"),
        (Range(2, 5), None),
        (Range(5, 6), "b"),
    ]


def test_settled_ranges_are_in_no_set_and_a_holder_without_ranges_is_forgotten() -> None:
    leases = leased(a=(0, 4), b=(5, 6))

    leases.settle(Range(1, 2), Cursor(), answered=True)
    cursor, _ = Cursor().settle(Range(1, 2), Settlement.ACKED)
    assert leases.of("a", cursor) == [Range(0, 1), Range(2, 4)]
    assert leases.pop_settled() == []

    leases.settle(Range(0, 4), cursor, answered=True)
    assert [one.age_us for one in leases.pop_settled()] == [5]
    assert leases.holders() == {"b"}


def test_leases_run_out_each_at_its_own_time() -> None:
    leases = leased(a=(0, 2), b=(5, 6))
    leases.extend("b", 90.0)
    leases.extend("nobody", 1.0)

    assert leases.expire(59.9) == []
    assert leases.expire(60.0) == [Range(0, 2)]
    assert leases.expire(90.0) == [Range(5, 6)]
    assert (bool(leases), leases.next_timer()) == (False, None)


def test_released_ranges_can_be_leased_by_another_holder() -> None:
    leases = leased(a=(0, 2))

    assert leases.release("a") == [Range(0, 2)]
    assert leases.release("a") == []
    leases.lease("b", 60.0, PAGE, [Range(0, 2)])
    leases.clear()

    assert leases.holders() == set()
    assert leases.records == 0
