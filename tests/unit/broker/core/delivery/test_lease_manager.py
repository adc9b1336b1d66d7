"""Leases on the retry queue: holders, settlement, expiry and release of sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from forebay.broker.core.delivery import lease_manager
from forebay.broker.core.delivery.in_flight import InFlight
from forebay.broker.core.delivery.lane import Answer, Lane, Results, SettleOutcome
from forebay.broker.core.delivery.redelivery import State
from forebay.broker.core.partition.cursor import Cursor, Settlement
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import DEFAULTS, Ordering

NOW = 1_000.0
UNTIL = 1_060.0
NEXT = 1_000
PAGE = Range(0, 20)
OK, ALREADY, STALE, UNKNOWN = (
    SettleOutcome.OK,
    SettleOutcome.ALREADY_SETTLED,
    SettleOutcome.STALE,
    SettleOutcome.UNKNOWN,
)


class Failing:
    """A lane whose consumer ``a`` has been sent one page of 20 records, and short words for what happens to it."""

    def __init__(self, *nacked: tuple[int, int], delay_s: float | None = 0.0, **settings: Any) -> None:
        self.lane = Lane(Cursor(), replace(DEFAULTS, **{"ordering": Ordering.RELAXED, **settings}))
        self.lane.assign("a", 7, InFlight())
        self.lane.sender.send(0, 20, 200, NOW)
        self.nack(*nacked, delay_s=delay_s)

    def answer(self) -> Answer:
        return Answer(7, self.lane.revision)

    def nack(self, *ranges: tuple[int, int], delay_s: float | None = 0.0) -> Results:
        requested = [Range(*one) for one in ranges]
        return self.lane.nack(self.answer(), requested, NOW, delay_s=delay_s, random=0.5, reason="it said 503")[0]

    def lease(self, holder: str = "spark", *, at: float = NOW, records_max: int = 100, **more: Any) -> list[Range]:
        return self.lane.lease_manager.lease_due(holder, UNTIL, PAGE, at, records_max=records_max, **more)

    def settle(self, *requested: int, holder: str = "spark") -> Results:
        return self.lane.settle_leased(holder, Range(*requested), NOW, NEXT)

    def state(self) -> State:
        return self.lane.resend.state

    def may_lease(self) -> bool:
        return self.lane.lease_manager.may_lease

    def parked(self) -> list[tuple[int, int]]:
        return [(one.first, one.end) for one in self.lane.retry.queue]

    def resent(self, at: float = NOW) -> list[Range]:
        """Redeliveries to the consumer."""
        return [] if self.lane.retry.resends_allowed(at) == 0 else self.lane.sender.send_retry(0, 20, 200, at)


# -- taking


def test_a_holder_takes_what_is_queued_for_retry_away_from_the_consumer() -> None:
    found = Failing((3, 5), (12, 13))

    assert found.lease() == [Range(3, 5), Range(12, 13)]

    assert found.parked() == []
    assert found.resent(UNTIL - 1) == []
    assert found.lane.lease_manager.leased_to("spark") == [Range(3, 5), Range(12, 13)]
    assert found.lane.records_in_flight == 17


def test_the_live_lane_of_the_next_consumer_leaves_out_what_is_leased() -> None:
    found = Failing((3, 5))
    found.lease()
    found.lane.release(failed=False)

    found.lane.assign("b", 8, InFlight())

    assert found.lane.sender.send(0, 20, 200, NOW) == [Range(0, 3), Range(5, 20)]


def test_a_range_that_its_nack_delays_is_leased_only_if_ranges_before_due_are_requested() -> None:
    found = Failing((3, 5), delay_s=30.0)

    assert found.lease() == []
    assert found.lease(before_due=True) == [Range(3, 5)]


def test_a_back_off_of_the_machine_keeps_no_holder_waiting() -> None:
    found = Failing((3, 5), delay_s=None, retry_backoff_min_us=10_000_000, retry_backoff_max_us=10_000_000)
    assert found.state() is State.BACKING_OFF

    assert found.lease() == [Range(3, 5)]
    assert found.state() is State.FLOWING


def test_a_set_ends_in_the_middle_of_a_range_and_what_is_left_stays_queued() -> None:
    found = Failing((3, 9), (12, 13))

    assert found.lease(records_max=4) == [Range(3, 7)]
    assert found.parked() == [(7, 9), (12, 13)]


def test_a_set_has_no_more_ranges_than_it_may() -> None:
    found = Failing((3, 4), (6, 7), (9, 10))

    assert found.lease(ranges_max=2) == [Range(3, 4), Range(6, 7)]


def test_no_range_is_cut_where_there_may_be_no_more_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_manager, "HOLES_MAX", 1)
    found = Failing((3, 9))

    assert found.lease(records_max=4) == [Range(3, 9)]


def test_nothing_is_taken_in_strict_order_while_paused_or_while_a_purge_is_under_way() -> None:
    found = Failing((3, 5))

    assert found.may_lease()
    found.lane.sender.held = True
    assert not found.may_lease()
    found.lane.sender.held = False
    found.lane.pause("by hand")
    assert not found.may_lease()
    found.lane.resend.resume()
    found.lane.change(replace(found.lane.settings, ordering=Ordering.STRICT))
    assert not found.may_lease()


def test_leased_ranges_are_holes_and_their_pages_are_not_to_be_dropped() -> None:
    found = Failing((3, 5), (12, 13))
    before = found.lane.sender.holes
    found.lane.settle(found.answer(), Range(0, 20), Settlement.ACKED, NOW, NEXT)
    found.lease()

    assert before == 2
    assert found.lane.sender.holes == 4  # with 5 to 12 and 13 to 20
    assert found.lane.pages_in_flight() == {0}


# -- settling


def test_settling_a_set_is_an_ack_of_it_and_doing_it_again_changes_nothing() -> None:
    found = Failing((3, 5), (12, 13))
    found.lease()

    assert found.settle(3, 5) == [(Range(3, 5), OK)]
    assert found.settle(3, 5) == [(Range(3, 5), ALREADY)]

    assert found.lane.cursor.acked == 2
    assert found.lane.cursor.attempts == ((12, 1),)
    assert found.lane.lease_manager.leased_to("spark") == [Range(12, 13)]


def test_a_settled_set_says_nothing_of_the_consumers_target() -> None:
    found = Failing((3, 5), (12, 13), delay_s=None, relaxed_failures_max=1)
    assert found.lane.retry.live_stopped
    found.lease()

    found.settle(3, 13)

    assert found.lane.retry.live_stopped


def test_a_holder_settles_no_record_that_the_consumer_has_in_flight() -> None:
    found = Failing((3, 5))
    found.lease()

    assert found.settle(2, 6) == [(Range(2, 3), STALE), (Range(3, 5), OK), (Range(5, 6), STALE)]
    assert found.lane.cursor.acked == 2


def test_a_holder_settles_no_range_that_another_holder_has_leased() -> None:
    found = Failing((3, 5))
    found.lease("other")

    assert found.settle(3, 5) == [(Range(3, 5), STALE)]
    assert found.settle(3, 5, holder="other") == [(Range(3, 5), OK)]


def test_a_set_whose_lease_has_run_out_is_settled_where_it_is_idle() -> None:
    found = Failing((3, 5), (12, 13))
    found.lease()
    found.lane.lease_manager.expire_leases(UNTIL)
    assert found.resent(UNTIL)[0] == Range(3, 5)

    results = found.settle(3, 5) + found.settle(12, 13)

    assert results == [(Range(3, 5), STALE), (Range(12, 13), STALE)]
    found.nack((3, 5))
    assert found.settle(3, 5) == [(Range(3, 5), OK)]
    assert found.parked() == []


def test_after_a_restart_what_was_delivered_before_is_settled_and_what_never_was_is_unknown() -> None:
    lane = Lane(Cursor(sent=10), replace(DEFAULTS, ordering=Ordering.RELAXED))

    assert lane.settle_leased("spark", Range(8, 12), NOW, NEXT) == [(Range(8, 10), OK), (Range(10, 12), UNKNOWN)]
    assert lane.cursor.beyond == (Range(8, 10),)


def test_the_consumer_settles_nothing_of_a_set_by_a_late_answer_but_all_by_number() -> None:
    found = Failing((3, 5))
    found.lease()

    late = found.lane.settle(Answer(7, 0), Range(0, 20), Settlement.ACKED, NOW, NEXT)
    assert (Range(3, 5), STALE) in late
    found.lane.settle_until(found.answer(), Range(0, 20), NOW, NEXT)

    assert found.lane.cursor.watermark == 20
    assert found.lane.lease_manager.leased_to("spark") == []
    assert found.settle(3, 5) == [(Range(3, 5), ALREADY)]


# -- running out, giving back, taking again


def test_a_lease_that_runs_out_is_a_failed_try_of_each_of_its_ranges() -> None:
    found = Failing((3, 5), (12, 13))
    found.lease()
    found.settle(3, 4)

    assert found.lane.lease_manager.expire_leases(UNTIL - 1) == []
    assert found.lane.lease_manager.expire_leases(UNTIL) == [Range(4, 5), Range(12, 13)]

    assert found.lane.cursor.attempts == ((4, 1), (12, 2))
    assert found.parked() == [(4, 5), (12, 13)]
    assert not found.lane.leases
    assert not found.lane.retry.live_stopped


def test_a_range_whose_last_attempt_was_a_lease_is_exhausted_when_the_lease_expires() -> None:
    found = Failing((3, 5), max_attempts=2)
    found.lease()
    assert found.lane.exhausted() == []

    found.lane.lease_manager.expire_leases(UNTIL)

    assert found.lane.exhausted() == [3]


def test_a_leased_range_is_not_exhausted_although_its_attempts_are_used_up() -> None:
    found = Failing((3, 5))
    found.lease()
    found.lane.change(replace(found.lane.settings, max_attempts=1))

    assert found.lane.exhausted() == []


def test_the_next_timer_is_that_of_the_lease() -> None:
    found = Failing((3, 5))
    found.lane.settle(found.answer(), Range(0, 20), Settlement.ACKED, NOW, NEXT)
    found.lease()

    assert found.lane.next_timer(NOW) == UNTIL
    found.lane.leases.extend("spark", UNTIL + 60)
    assert found.lane.next_timer(NOW) == UNTIL + 60


def test_a_released_range_keeps_its_attempts_and_is_due_at_once() -> None:
    found = Failing((3, 5), delay_s=30.0)
    found.lease(before_due=True)

    assert found.lane.lease_manager.release("spark") == [Range(3, 5)]
    assert found.lane.lease_manager.release("spark") == []

    assert found.lane.cursor.attempts == ((3, 1),)
    assert found.resent() == [Range(3, 5)]


def test_a_set_is_taken_again_by_its_ranges_but_for_what_is_in_flight_or_settled() -> None:
    found = Failing((3, 5), (8, 9), (12, 15))
    found.lease()
    found.lane.lease_manager.expire_leases(UNTIL)
    found.settle(12, 13)
    found.lease("other", records_max=2)

    taken = found.lane.lease_manager.lease_again("spark", UNTIL + 60, PAGE, Range(2, 16), NOW)

    assert taken == [Range(8, 9), Range(13, 15)]
    assert found.lane.lease_manager.leased_to("spark") == [Range(8, 9), Range(13, 15)]


def test_after_a_restart_a_set_is_taken_again_ahead_of_the_consumer_as_far_as_it_was_delivered() -> None:
    lane = Lane(Cursor(sent=10), replace(DEFAULTS, ordering=Ordering.RELAXED))

    assert lane.lease_manager.lease_again("spark", UNTIL, PAGE, Range(8, 12), NOW) == [Range(8, 10)]

    lane.assign("a", 7, InFlight())
    assert lane.sender.send(0, 20, 200, NOW) == [Range(0, 8), Range(10, 20)]
    lane.lease_manager.expire_leases(UNTIL)
    assert lane.sender.send_retry(0, 20, 200, UNTIL) == [Range(8, 10)]


def test_in_strict_order_what_is_idle_is_settled_still_and_the_consumer_continues_after_it() -> None:
    found = Failing((0, 2), (3, 5))
    found.lease()
    change(found.lane)
    found.lane.sender.send(0, 4, 40, NOW)

    assert found.settle(0, 2) == [(Range(0, 2), STALE)]
    assert found.settle(3, 5) == [(Range(3, 4), STALE), (Range(4, 5), OK)]

    assert found.lane.sender.send(4, 8, 40, NOW) == [Range(5, 8)]


# -- what happens to the records meanwhile


def test_a_drop_takes_records_out_of_a_set_and_the_gap_is_reported() -> None:
    found = Failing((3, 5))
    found.lease()

    assert found.lane.drop([Range(0, 20)], NOW, NEXT) == 20

    assert found.lane.lease_manager.leased_to("spark") == []
    assert found.lane.sender.position == 3
    assert found.settle(3, 5) == [(Range(3, 5), ALREADY)]


def seek(lane: Lane) -> None:
    lane.seek(2, 20)


def change(lane: Lane) -> None:
    lane.change(replace(lane.settings, ordering=Ordering.STRICT))


@pytest.mark.parametrize("end", [seek, change])
def test_a_seek_and_a_change_to_strict_order_take_all_sets_away(end: Callable[[Lane], None]) -> None:
    found = Failing((3, 5))
    found.lease()

    end(found.lane)

    assert not found.lane.leases
    assert found.lane.sender.send(0, 20, 200, NOW + 100)[0].end == 20


def test_a_pause_and_a_consumer_that_leaves_take_nothing_from_a_holder() -> None:
    found = Failing((3, 5))
    found.lease()

    found.lane.pause("by hand")
    found.lane.release(failed=True)

    assert found.lane.lease_manager.leased_to("spark") == [Range(3, 5)]


def test_a_holder_is_found_below_an_offset() -> None:
    found = Failing((3, 5))
    found.lease()

    assert found.lane.lease_manager.leased_below(4) == "spark"
    assert found.lane.lease_manager.leased_below(3) is None
