"""A lane in RELAXED order: failed records go to the retry queue, and the delivery of others continues."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from forebay.broker.core.delivery.in_flight import InFlight
from forebay.broker.core.delivery.lane import HOLES_MAX, Answer, Lane, Results, Revocation, SettleOutcome
from forebay.broker.core.delivery.redelivery import State
from forebay.broker.core.delivery.retry_scheduler import DeliverySource
from forebay.broker.core.partition.cursor import Cursor, Settlement
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import DEFAULTS, Ordering

NOW = 1_000.0
NEXT = 1_000_000
OK, ALREADY, STALE, UNKNOWN = (
    SettleOutcome.OK,
    SettleOutcome.ALREADY_SETTLED,
    SettleOutcome.STALE,
    SettleOutcome.UNKNOWN,
)
LIVE, PARKED = DeliverySource.LIVE, DeliverySource.RETRY


class Held:
    """A lane that consumer ``a`` owns, and short words for what happens to it."""

    def __init__(self, cursor: Cursor | None = None, **settings: Any) -> None:
        self.usage = InFlight()
        chosen = {"ordering": Ordering.RELAXED, "retry_backoff_max_us": 100_000, **settings}
        self.lane = Lane(cursor or Cursor(), replace(DEFAULTS, **chosen))
        self.lane.assign("a", 7, self.usage)

    def answer(self, revision: int | None = None) -> Answer:
        return Answer(7, self.lane.revision if revision is None else revision)

    def send(self, *ends: int, at: float = NOW) -> None:
        """Send pages that end there, ten bytes a record, each in a delivery of its own."""
        for end in ends:
            base = self.lane.sender.position
            self.lane.sender.send(base, end, 10 * (end - base), at)

    def resend(self, base: int, end: int, at: float = NOW, **more: Any) -> list[Range]:
        """Send the records of a page that are in the retry queue, if that is allowed."""
        if self.lane.retry.resends_allowed(at) == 0:
            return []
        return self.lane.sender.send_retry(base, end, 10 * (end - base), at, **more)

    def ack(self, first: int, end: int, *, revision: int | None = None, at: float = NOW) -> Results:
        return self.lane.settle(self.answer(revision), Range(first, end), Settlement.ACKED, at, NEXT)

    def nack(
        self, *ranges: tuple[int, int], revision: int | None = None, delay_s: float | None = 0.0, at: float = NOW
    ) -> tuple[Results, Revocation | None]:
        requested = [Range(*one) for one in ranges]
        return self.lane.nack(self.answer(revision), requested, at, delay_s=delay_s, random=0.5, reason="it said 503")

    def state(self) -> State:
        return self.lane.resend.state

    def parked(self) -> list[tuple[int, int]]:
        return [(one.first, one.end) for one in self.lane.retry.queue]


# -- stepping aside


def test_a_nack_parks_what_it_names_and_leaves_the_rest_in_flight() -> None:
    held = Held()
    held.send(10, 20)

    results, revocation = held.nack((3, 5), (12, 13))

    assert results == [(Range(3, 5), OK), (Range(12, 13), OK)]
    assert revocation == Revocation(3, 1, notify=False)
    assert held.parked() == [(3, 5), (12, 13)]
    assert held.lane.cursor.attempts == ((3, 1), (12, 1))
    assert (held.usage.records, held.lane.records_in_flight, held.lane.sender.position) == (17, 17, 20)
    assert held.ack(0, 20, revision=0) == [
        (Range(0, 3), OK),
        (Range(3, 5), STALE),
        (Range(5, 10), OK),
        (Range(10, 12), OK),
        (Range(12, 13), STALE),
        (Range(13, 20), OK),
    ]


def test_bytes_of_a_page_are_shared_by_its_parts_and_all_released() -> None:
    held = Held()
    held.send(10)
    held.nack((3, 5))
    assert (held.usage.records, held.usage.size) == (8, 80)

    held.resend(0, 10)
    assert (held.usage.records, held.usage.size) == (10, 180)
    held.ack(0, 10)

    assert (held.usage.records, held.usage.size, held.lane.idle) == (0, 0, True)


def test_overlapping_ranges_of_one_nack_fail_once() -> None:
    held = Held()
    held.send(10)

    held.nack((3, 6), (5, 8))

    assert (held.parked(), held.lane.cursor.attempts) == ([(3, 8)], ((3, 1),))


def test_a_redelivery_has_a_newer_revision_so_answers_to_the_first_delivery_are_stale() -> None:
    held = Held()
    held.send(10)
    held.nack((3, 4))

    assert held.resend(0, 10) == [Range(3, 4)]

    assert held.ack(3, 4, revision=0) == [(Range(3, 4), STALE)]
    assert held.nack((3, 4), revision=0) == ([(Range(3, 4), STALE)], None)
    assert held.ack(3, 4, revision=1) == [(Range(3, 4), OK)]


def test_an_answer_of_the_future_is_stale() -> None:
    held = Held()
    held.send(10)

    assert held.ack(0, 5, revision=1) == [(Range(0, 5), STALE)]


def test_new_records_pass_over_the_retry_queue() -> None:
    held = Held()
    held.send(10)
    held.ack(0, 2)
    held.nack((3, 5))
    held.lane.release(failed=False)
    held.lane.assign("b", 8, held.usage)

    assert held.lane.sender.send(0, 10, 100, NOW) == [Range(2, 3), Range(5, 10)]
    assert (held.usage.records, held.usage.size) == (6, 100)
    assert held.parked() == [(3, 5)]


def test_a_queued_page_may_be_taken_in_pieces() -> None:
    held = Held()
    held.send(10)
    held.nack((1, 4), (6, 8))

    assert held.resend(0, 10, records_max=2) == [Range(1, 3)]
    held.ack(1, 3)
    assert held.resend(0, 10, records_max=9) == [Range(3, 4), Range(6, 8)]
    assert held.parked() == []


def test_ack_until_settles_what_is_queued_for_retry_too() -> None:
    held = Held()
    held.send(10)
    held.nack((3, 5))

    assert held.lane.settle_until(held.answer(), Range(0, 10), NOW, NEXT) == [(Range(0, 10), OK)]

    assert (held.parked(), held.lane.idle, held.lane.cursor.watermark) == ([], True, 10)
    assert held.state() is State.FLOWING


def test_ack_until_says_ok_only_of_what_it_settles_itself() -> None:
    held = Held()
    held.send(10, 20)
    held.nack((3, 5))
    held.lane.drop([Range(0, 10)], NOW, NEXT)

    assert held.lane.settle_until(held.answer(), Range(0, 20), NOW, NEXT) == [
        (Range(0, 10), ALREADY),
        (Range(10, 20), OK),
    ]


# -- when, and which first


def test_a_delay_that_a_nack_named_holds_back_its_own_range_only() -> None:
    held = Held(ack_deadline_us=99_000_000)
    held.send(10)
    held.nack((3, 4), delay_s=60.0)
    held.nack((5, 6), delay_s=0.0)

    assert held.lane.sender.pages_allowed(NOW) is None
    assert held.resend(0, 10) == [Range(5, 6)]
    held.ack(5, 6)
    assert held.resend(0, 10, at=NOW + 59.9) == []
    assert held.lane.next_timer(NOW + 50) == NOW + 60
    assert held.resend(0, 10, at=NOW + 60) == [Range(3, 4)]


def test_one_probe_goes_out_after_the_back_off_and_then_the_rest() -> None:
    held = Held()
    held.send(10, 20, 30)
    held.nack((1, 2), (11, 12), (21, 22), delay_s=None)

    assert held.resend(0, 10, at=NOW + 0.05) == []
    assert held.state() is State.BACKING_OFF
    assert held.lane.next_timer(NOW) == pytest.approx(NOW + 0.1)
    assert held.resend(0, 10, at=NOW + 0.1) == [Range(1, 2)]
    assert held.lane.retry.resends_allowed(NOW + 0.1) == 0
    held.ack(1, 2, at=NOW + 0.1)
    assert held.state() is State.RESENDING
    assert held.resend(10, 20, at=NOW + 0.1) == [Range(11, 12)]
    assert held.resend(20, 30, at=NOW + 0.1) == [Range(21, 22)]
    held.ack(11, 12)
    assert held.state() is State.RESENDING
    held.ack(21, 22)
    assert held.state() is State.FLOWING


def test_with_an_interval_retries_continuee_by_one_and_new_records_do_not_wait() -> None:
    held = Held(resend_interval_us=5_000_000)
    held.send(10, 20)
    held.nack((1, 2), (11, 12))
    assert held.resend(0, 10) == [Range(1, 2)]
    held.ack(1, 2)

    assert held.resend(10, 20, at=NOW + 4.9) == []
    assert held.lane.sender.pages_allowed(NOW + 1) is None
    assert held.lane.next_timer(NOW + 1) == NOW + 5
    assert held.resend(10, 20, at=NOW + 5) == [Range(11, 12)]


def test_failures_of_live_records_do_not_put_off_what_is_queued_for_retry() -> None:
    held = Held(relaxed_failures_max=1_000)
    held.send(*range(1, 101))
    for offset in range(50):
        held.nack((offset, offset + 1), delay_s=None, at=NOW + offset * 0.01)

    assert held.resend(0, 1, at=NOW + 0.1) == [Range(0, 1)]


def test_one_record_that_fails_for_ever_does_not_hold_back_the_others_in_the_retry_queue() -> None:
    held = Held()
    held.send(1, 2, 3)
    held.nack((0, 1))
    held.nack((1, 2))
    held.nack((2, 3))
    tried: list[int] = []

    for _ in range(4):
        held.lane.retry.resends_allowed(NOW)
        first = held.lane.retry.next_due(NOW)
        assert first is not None
        held.resend(first, first + 1)
        tried.append(first)
        held.nack((first, first + 1))

    assert tried == [0, 1, 2, 0]


@pytest.mark.parametrize(("priority", "order"), [(-1, (LIVE, PARKED)), (0, (PARKED, LIVE)), (1, (PARKED, LIVE))])
def test_the_priority_says_which_lane_is_asked_first(priority: int, order: tuple[DeliverySource, ...]) -> None:
    held = Held(resend_priority=priority)
    held.send(10)
    assert held.lane.sender.order(NOW) == (LIVE,)

    held.nack((3, 4))

    assert held.lane.sender.order(NOW) == order


def test_by_age_an_older_live_record_goes_first() -> None:
    held = Held(resend_priority=0)
    held.send(10)
    held.nack((3, 4))
    held.lane.release(failed=False)
    held.lane.assign("b", 8, held.usage)

    assert (held.lane.sender.position, held.lane.sender.order(NOW)) == (0, (LIVE, PARKED))


def test_the_retry_queue_comes_after_live_records_while_its_range_is_not_due() -> None:
    held = Held(resend_priority=0)
    held.send(10)
    held.nack((3, 4), delay_s=9.0)

    assert held.lane.sender.order(NOW) == (LIVE, PARKED)


# -- too many failures in a row


def test_too_many_failures_in_a_row_stop_the_live_lane_until_a_probe_succeeds() -> None:
    held = Held(relaxed_failures_max=3)
    held.send(*range(1, 6))
    held.nack((0, 1))
    held.nack((1, 2))
    assert held.lane.sender.pages_allowed(NOW) is None

    held.nack((2, 3), delay_s=None)

    assert (held.lane.retry.live_stopped, held.lane.sender.pages_allowed(NOW)) == (True, 0)
    held.ack(3, 4)  # it was sent before
    assert held.lane.retry.live_stopped
    assert held.resend(0, 1, at=NOW + 0.1) == [Range(0, 1)]
    assert held.lane.sender.pages_allowed(NOW + 0.1) == 0
    held.ack(0, 1, at=NOW + 0.1)
    assert (held.lane.retry.live_stopped, held.lane.sender.pages_allowed(NOW + 0.1)) == (False, None)


def test_a_success_in_between_restarts_the_count() -> None:
    held = Held(relaxed_failures_max=2)
    held.send(1, 2, 3)

    held.nack((0, 1))
    held.ack(1, 2)
    held.nack((2, 3))

    assert not held.lane.retry.live_stopped


def test_a_delivery_counts_once_however_many_of_its_records_fail() -> None:
    held = Held(relaxed_failures_max=2)
    held.lane.sender.send(0, 10, 100, NOW)
    held.lane.sender.send(10, 20, 100, NOW, more=True)

    for offset in range(20):
        held.nack((offset, offset + 1))

    assert not held.lane.retry.live_stopped


def test_while_all_is_stopped_the_delay_of_a_nack_holds_for_the_probes() -> None:
    held = Held(relaxed_failures_max=1)
    held.send(1)

    held.nack((0, 1), delay_s=30.0)

    assert (held.lane.sender.pages_allowed(NOW + 29.9), held.lane.retry.resends_allowed(NOW + 29.9)) == (0, 0)
    assert (held.lane.sender.pages_allowed(NOW + 30), held.lane.retry.resends_allowed(NOW + 30)) == (1, 1)


def test_probes_are_taken_in_turn_from_both_lanes_so_that_one_bad_record_does_not_stop_all() -> None:
    held = Held(relaxed_failures_max=1)
    held.send(1)
    held.nack((0, 1))
    assert held.lane.sender.order(NOW) == (PARKED, LIVE)

    held.resend(0, 1)
    held.nack((0, 1))
    assert held.lane.sender.order(NOW) == (LIVE, PARKED)
    assert held.lane.sender.pages_allowed(NOW) == 1
    held.send(2)
    assert (held.lane.sender.pages_allowed(NOW), held.lane.retry.resends_allowed(NOW)) == (0, 0)
    held.ack(1, 2)

    assert not held.lane.retry.live_stopped
    assert held.parked() == [(0, 1)]


def test_with_nothing_queued_for_retry_any_more_stopped_new_records_are_probed() -> None:
    held = Held(relaxed_failures_max=1)
    held.send(1)
    held.nack((0, 1))
    held.lane.drop([Range(0, 1)], NOW, NEXT)
    assert held.lane.sender.order(NOW) == (LIVE,)

    assert held.lane.sender.pages_allowed(NOW) == 1
    held.lane.sender.note_gap_sent(1)
    held.send(2)
    held.ack(1, 2)

    assert (held.lane.retry.live_stopped, held.state()) == (False, State.FLOWING)


# -- deadlines


def test_every_page_has_a_deadline_of_its_own() -> None:
    held = Held(ack_deadline_us=10_000_000)
    held.send(5, at=NOW)
    held.send(10, at=NOW + 4)

    assert held.lane.deadline() == NOW + 10
    assert held.lane.expire(NOW + 9.9, 0.5) is None
    assert held.lane.expire(NOW + 10, 0.5) == Revocation(0, 1, notify=False)

    assert (held.parked(), held.lane.cursor.attempts, held.lane.records_in_flight) == ([(0, 5)], ((0, 1),), 5)
    assert held.lane.deadline() == NOW + 14
    assert held.ack(5, 10, revision=0) == [(Range(5, 10), OK)]
    assert held.lane.deadline() is None


def test_a_page_s_deadline_restarts_when_its_lowest_record_is_settled() -> None:
    held = Held(ack_deadline_us=10_000_000)
    held.send(5, 10, at=NOW)

    held.ack(3, 5, at=NOW + 5)
    assert held.lane.deadline() == NOW + 10
    held.ack(0, 1, at=NOW + 5)
    held.ack(5, 6, at=NOW + 6)

    assert held.lane.deadline() == NOW + 15


def test_more_time_is_given_to_what_an_extension_names_or_to_all() -> None:
    held = Held(ack_deadline_us=10_000_000)
    held.send(5, 10, at=NOW)

    assert held.lane.extend(7, NOW + 5, [Range(5, 6)])
    assert held.lane.deadline() == NOW + 10
    assert held.lane.extend(7, NOW + 6)
    assert held.lane.deadline() == NOW + 16
    assert not held.lane.extend(6, NOW + 9)


def test_several_pages_that_are_late_fail_together_each_by_its_lowest_record() -> None:
    held = Held(ack_deadline_us=10_000_000)
    held.send(5, 10, at=NOW)
    held.ack(0, 2)

    assert held.lane.expire(NOW + 30, 0.5) is not None

    assert (held.parked(), held.lane.cursor.attempts, held.lane.idle) == ([(2, 5), (5, 10)], ((2, 1), (5, 1)), True)


# -- owners, pauses, seeks


def test_an_owner_that_leaves_parks_the_page_at_the_head_and_what_was_sent_again() -> None:
    held = Held()
    held.send(10, 20)
    held.nack((12, 14))
    held.resend(10, 20)
    held.ack(0, 3)

    held.lane.release(failed=True)

    assert held.lane.cursor.attempts == ((3, 1), (12, 1))
    assert held.parked() == [(3, 10), (12, 14)]
    assert held.usage.records == held.usage.size == 0
    held.lane.assign("b", 8, held.usage)
    assert held.lane.sender.send(0, 10, 100, NOW) == []
    assert held.lane.sender.send(10, 20, 100, NOW) == [Range(10, 12), Range(14, 20)]


def test_a_pause_takes_all_back_and_keeps_the_retry_queue() -> None:
    held = Held()
    held.send(10, 20)
    held.nack((3, 4))
    held.resend(0, 10)
    held.ack(4, 10)

    assert held.lane.pause("maintenance") == Revocation(0, 2)

    assert (held.lane.sender.pages_allowed(NOW), held.lane.retry.resends_allowed(NOW)) == (0, 0)
    assert (held.parked(), held.lane.sender.position, held.lane.idle) == ([(3, 4)], 0, True)
    held.lane.resend.resume()
    assert held.lane.sender.send(0, 10, 100, NOW) == [Range(0, 3)]
    assert held.resend(0, 10) == [Range(3, 4)]
    assert held.ack(0, 20, revision=1) == [(Range(0, 20), STALE)]


def test_a_seek_forgets_what_is_queued_for_retry() -> None:
    held = Held()
    held.send(10)
    held.nack((3, 4))

    held.lane.seek(2, 10)

    assert (held.parked(), held.lane.idle, held.lane.sender.position) == ([], True, 2)


# -- gaps


def test_a_queued_record_that_is_dropped_is_reported_and_nothing_after_it_is_redelivered() -> None:
    held = Held()
    held.send(10, 20)
    held.ack(4, 10)
    held.ack(0, 3)
    held.nack((3, 4))

    assert held.lane.drop([Range(0, 10)], NOW, NEXT) == 1

    assert (held.parked(), held.lane.sender.position) == ([], 3)
    held.lane.sender.note_gap_sent(10)
    assert held.lane.sender.send(10, 20, 100, NOW) == []
    assert (held.lane.sender.position, held.lane.records_in_flight) == (20, 10)


def test_such_a_gap_counts_as_reported_only_once_something_that_was_sent_after_it_is_answered() -> None:
    held = Held()
    held.send(10, 20)
    held.ack(0, 3)
    held.ack(4, 10)
    held.nack((3, 4))
    held.lane.drop([Range(0, 10)], NOW, NEXT)
    held.ack(10, 15)  # sent before the gap was
    assert (held.lane.cursor.watermark, held.lane.cursor.notified) == (15, 3)
    held.lane.sender.note_gap_sent(10)
    held.ack(15, 20)
    assert held.lane.cursor.notified == 3

    held.lane.sender.send(10, 20, 100, NOW)
    held.send(30)
    held.ack(20, 21)

    assert held.lane.cursor.notified == 21


# -- the budget


def test_with_too_many_queued_for_retry_nothing_new_is_sent_and_nothing_is_forgotten() -> None:
    held = Held(relaxed_failures_max=1_000_000)
    held.send(2 * HOLES_MAX)
    for offset in range(0, HOLES_MAX, 2):
        held.nack((offset, offset + 1))
    assert (held.lane.sender.holes, held.lane.sender.waits_for_holes) == (HOLES_MAX // 2, False)
    for offset in range(1, HOLES_MAX, 2):
        held.ack(offset, offset + 1)

    assert held.lane.sender.waits_for_holes
    assert (held.lane.sender.pages_allowed(NOW), held.lane.sender.order(NOW)) == (0, (PARKED, LIVE))
    held.resend(0, 2 * HOLES_MAX)
    held.ack(0, HOLES_MAX)

    assert (held.lane.sender.holes, held.lane.sender.pages_allowed(NOW)) == (0, None)
    assert held.lane.cursor.acked == HOLES_MAX


# -- another order


def test_from_relaxed_to_strict_all_is_redelivered_in_its_place() -> None:
    held = Held()
    held.send(10, 20)
    held.nack((3, 5), delay_s=9.0)
    held.ack(0, 3)
    strict = replace(held.lane.settings, ordering=Ordering.STRICT)

    assert held.lane.change(strict) == Revocation(0, 2)

    assert (held.parked(), held.lane.idle, held.lane.sender.position) == ([], True, 3)
    assert held.lane.cursor.attempts == ((3, 1),)
    assert held.lane.sender.order(NOW + 1) == (LIVE,)
    assert held.lane.sender.pages_allowed(NOW + 1) in (1, None)
    assert held.lane.sender.send(0, 10, 100, NOW) == [Range(3, 10)]
    assert held.ack(5, 6, revision=1) == [(Range(5, 6), STALE)]
    assert held.ack(3, 10) == [(Range(3, 10), OK)]


def test_from_strict_to_relaxed_what_the_lane_waits_for_goes_to_the_retry_queue_with_its_delay() -> None:
    held = Held(ordering=Ordering.STRICT)
    held.send(10, 20)
    held.nack((3, 5), delay_s=9.0)
    held.ack(0, 3)
    relaxed = replace(held.lane.settings, ordering=Ordering.RELAXED)

    assert held.lane.change(relaxed) is None

    assert (held.parked(), held.lane.sender.position) == ([(3, 4)], 3)
    assert held.lane.sender.send(0, 10, 100, NOW) == [Range(4, 10)]
    assert held.resend(0, 10, at=NOW + 8.9) == []
    assert held.resend(0, 10, at=NOW + 9) == [Range(3, 4)]


def test_other_settings_take_nothing_back() -> None:
    held = Held()
    held.send(10)
    held.nack((3, 4))

    assert held.lane.change(replace(held.lane.settings, ack_deadline_us=1_000_000)) is None

    assert (held.lane.deadline(), held.parked()) == (NOW + 1, [(3, 4)])


# -- notices of gaps


def test_an_answer_to_what_was_sent_before_a_gap_notice_does_not_confirm_the_notice() -> None:
    held = Held()
    held.send(1, 2, 3)
    held.nack((2, 3))
    held.lane.release(failed=False)
    held.lane.drop([Range(0, 1)], NOW, NEXT)
    held.lane.assign("b", 7, held.usage)

    assert held.resend(2, 3) == [Range(2, 3)]
    held.lane.sender.note_gap_sent(1)
    held.ack(2, 3)
    assert held.lane.cursor.notified == 0

    held.send(2)
    held.ack(1, 2)
    assert held.lane.cursor.notified == 2


def test_a_gap_is_reported_to_the_next_consumer_while_no_answer_has_confirmed_its_notice() -> None:
    held = Held()
    held.send(1, 2)
    held.lane.release(failed=False)
    held.lane.drop([Range(0, 1)], NOW, NEXT)
    held.lane.assign("b", 7, held.usage)
    held.lane.sender.note_gap_sent(1)
    held.lane.release(failed=False)

    held.lane.assign("c", 8, held.usage)

    assert held.lane.sender.position == 0
