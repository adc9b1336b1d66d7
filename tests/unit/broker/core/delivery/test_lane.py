from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from forebay.broker.core.delivery import answers as answers_module
from forebay.broker.core.delivery.in_flight import InFlight
from forebay.broker.core.delivery.lane import HOLES_MAX, Answer, Lane, Results, Revocation, SettleOutcome
from forebay.broker.core.delivery.redelivery import State
from forebay.broker.core.partition.cursor import Cursor, Settlement
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import DEFAULTS, Ordering

NOW = 1_000.0
NEXT = 1_000
OK, ALREADY, STALE, UNKNOWN = (
    SettleOutcome.OK,
    SettleOutcome.ALREADY_SETTLED,
    SettleOutcome.STALE,
    SettleOutcome.UNKNOWN,
)


class Held:
    """A lane that consumer ``a`` owns, and short words for what happens to it."""

    def __init__(self, cursor: Cursor | None = None, **settings: Any) -> None:
        self.usage = InFlight()
        self.lane = Lane(cursor or Cursor(), replace(DEFAULTS, **settings))
        self.lane.assign("a", 7, self.usage)

    def answer(self, revision: int | None = None) -> Answer:
        return Answer(7, self.lane.revision if revision is None else revision)

    def send(self, *ends: int, at: float = NOW) -> None:
        """Send pages that end there, ten bytes a record."""
        for end in ends:
            base = self.lane.sender.position
            self.lane.sender.send(base, end, 10 * (end - base), at)

    def ack(self, first: int, end: int, *, revision: int | None = None, at: float = NOW) -> Results:
        return self.lane.settle(self.answer(revision), Range(first, end), Settlement.ACKED, at, NEXT)

    def nack(self, first: int, end: int, *, revision: int | None = None) -> tuple[Results, Revocation | None]:
        return self.lane.nack(
            self.answer(revision), [Range(first, end)], NOW, delay_s=0.0, random=0.5, reason="it said 503"
        )


# -- sending


def test_sent_records_are_in_flight() -> None:
    held = Held()

    held.send(10, 15)

    assert (held.usage.records, held.usage.size) == (15, 150)
    assert held.lane.records_in_flight == 15
    assert held.lane.pages_in_flight() == {0, 10}
    assert held.lane.sender.position == 15


def test_settled_parts_of_a_page_are_left_out() -> None:
    cursor, _ = Cursor().settle(Range(2, 4), Settlement.ACKED)
    held = Held(cursor)

    assert held.lane.sender.send(0, 6, 60, NOW) == [Range(0, 2), Range(4, 6)]
    assert (held.usage.records, held.usage.size) == (4, 60)


def test_a_page_that_is_settled_is_not_sent() -> None:
    cursor, _ = Cursor().settle(Range(0, 6), Settlement.ACKED)
    held = Held(cursor)

    assert held.lane.sender.send(0, 6, 60, NOW) == []
    assert held.lane.idle


def test_a_page_may_be_taken_in_pieces() -> None:
    held = Held()

    assert held.lane.sender.send(0, 10, 100, NOW, records_max=4) == [Range(0, 4)]
    assert held.lane.sender.position == 4
    assert held.lane.sender.send(0, 10, 100, NOW, records_max=100) == [Range(4, 10)]
    assert held.lane.sender.position == 10


def test_pieces_count_records_and_not_offsets() -> None:
    cursor, _ = Cursor().settle(Range(1, 5), Settlement.ACKED)
    held = Held(cursor)

    assert held.lane.sender.send(0, 10, 100, NOW, records_max=3) == [Range(0, 1), Range(5, 7)]
    assert held.lane.sender.position == 7


def test_records_sent_again_after_a_nack_are_counted_as_redelivered() -> None:
    held = Held()
    held.send(10)
    held.nack(4, 5)

    held.send(12)

    assert held.lane.progress.redelivered == 6


# -- answers


def test_an_ack_takes_out_of_flight_and_moves_the_watermark() -> None:
    held = Held()
    held.send(10)

    assert held.ack(0, 4) == [(Range(0, 4), OK)]

    assert held.lane.cursor.watermark == 4
    assert (held.usage.records, held.usage.size) == (6, 100)
    assert held.ack(4, 10) == [(Range(4, 10), OK)]
    assert (held.usage.records, held.usage.size, held.lane.idle) == (0, 0, True)


def test_settling_twice_is_fine() -> None:
    held = Held()
    held.send(10)
    held.ack(2, 4)

    assert held.ack(0, 10) == [
        (Range(0, 2), OK),
        (Range(2, 4), ALREADY),
        (Range(4, 10), OK),
    ]
    assert held.ack(0, 10) == [(Range(0, 10), ALREADY)]


def test_an_ack_of_records_that_were_never_delivered_is_unknown() -> None:
    held = Held()
    held.send(10)

    assert held.ack(8, 20) == [(Range(8, 10), OK), (Range(10, 20), UNKNOWN)]
    assert held.lane.cursor.pending(20) == 18


def test_another_consumer_s_answer_is_stale() -> None:
    held = Held()
    held.send(10)

    results = held.lane.settle(Answer(6, 0), Range(0, 5), Settlement.ACKED, NOW, NEXT)

    assert results == [(Range(0, 5), STALE)]
    assert held.lane.cursor.watermark == 0


def test_a_revision_that_does_not_exist_yet_is_stale() -> None:
    held = Held()
    held.send(10)

    assert held.ack(0, 5, revision=3) == [(Range(0, 5), STALE)]


def test_acks_below_a_nack_count_under_the_old_revision() -> None:
    held = Held()
    held.send(100)

    _, revocation = held.nack(60, 61)

    assert revocation == Revocation(60, 1)
    assert held.ack(0, 60, revision=0) == [(Range(0, 60), OK)]
    assert held.ack(55, 70, revision=0) == [(Range(55, 60), ALREADY), (Range(60, 70), STALE)]
    assert held.lane.cursor.watermark == 60


def test_a_late_ack_from_before_the_revocation_does_nothing_to_the_second_delivery() -> None:
    held = Held()
    held.send(10)
    held.nack(3, 4)
    held.send(10)

    assert held.ack(3, 10, revision=0) == [(Range(3, 10), STALE)]
    assert held.ack(3, 10, revision=1) == [(Range(3, 10), OK)]


def test_answers_under_an_old_revision_count_below_the_lowest_revocation_since() -> None:
    held = Held()
    held.send(100)
    held.nack(60, 61)  # revision 1 voids from 60
    held.send(100)
    held.nack(80, 81)  # revision 2 voids from 80

    assert held.ack(50, 90, revision=0) == [(Range(50, 60), OK), (Range(60, 90), STALE)]
    assert held.ack(60, 90, revision=1) == [(Range(60, 80), OK), (Range(80, 90), STALE)]


def test_a_lower_revocation_hides_the_ones_above_it() -> None:
    held = Held()
    held.send(100)
    held.nack(60, 61)
    held.nack(20, 21, revision=0)

    assert held.lane.revision == 2
    assert held.ack(10, 70, revision=0) == [(Range(10, 20), OK), (Range(20, 70), STALE)]
    assert held.ack(10, 70, revision=1) == [(Range(10, 20), ALREADY), (Range(20, 70), STALE)]


def test_a_long_history_forgets_by_calling_more_stale_and_never_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers_module, "HISTORY_MAX", 3)
    held = Held()
    held.send(100)
    for offset in (10, 20, 30, 40, 50):
        held.nack(offset, offset + 1)
        held.send(100)

    for revision, first in ((0, 10), (1, 20), (2, 30), (3, 40), (4, 50)):
        results = held.ack(5, 90, revision=revision)
        counted = [part.end for part, outcome in results if outcome in (OK, ALREADY)]
        assert max(counted, default=0) <= first


def test_ack_until_settles_what_was_never_delivered() -> None:
    held = Held()
    held.send(10)

    results = held.lane.settle_until(held.answer(), Range(0, 25), NOW, NEXT)

    assert results == [(Range(0, 25), OK)]
    assert (held.lane.cursor.watermark, held.lane.sender.position, held.lane.idle) == (25, 25, True)
    assert held.lane.cursor.acked == 25


def test_ack_until_inside_a_page_leaves_the_rest_in_flight() -> None:
    held = Held()
    held.send(10, 20)

    held.lane.settle_until(held.answer(), Range(0, 13), NOW, NEXT)

    assert (held.lane.records_in_flight, held.usage.records) == (7, 7)
    assert held.lane.sender.position == 20


def test_ack_until_is_only_for_the_owner_and_not_beyond_the_end() -> None:
    held = Held()
    held.send(10)

    assert held.lane.settle_until(Answer(6, 0), Range(0, 5), NOW, NEXT) == [(Range(0, 5), STALE)]
    assert held.lane.settle_until(held.answer(), Range(0, NEXT + 1), NOW, NEXT) == [(Range(0, NEXT + 1), UNKNOWN)]
    assert held.lane.cursor.watermark == 0


def test_ack_until_under_an_old_revision_stops_where_it_was_revoked() -> None:
    held = Held()
    held.send(20)
    held.nack(12, 13)

    assert held.lane.settle_until(held.answer(0), Range(0, 18), NOW, NEXT) == [
        (Range(0, 12), OK),
        (Range(12, 18), STALE),
    ]
    assert held.lane.cursor.watermark == 12


def test_ack_until_again_changes_nothing() -> None:
    held = Held()
    held.send(10)
    held.lane.settle_until(held.answer(), Range(0, 10), NOW, NEXT)

    assert held.lane.settle_until(held.answer(), Range(0, 8), NOW, NEXT) == [(Range(0, 8), ALREADY)]
    assert held.lane.cursor.acked == 10


# -- failures


def test_a_nack_returns_the_record_and_all_after_it_and_counts_one_try() -> None:
    held = Held()
    held.send(10, 20)

    results, revocation = held.nack(13, 15)

    assert results == [(Range(13, 15), OK)]
    assert revocation == Revocation(13, 1)
    assert held.lane.sender.position == 13
    assert held.lane.cursor.attempts == ((13, 1),)
    assert (held.usage.records, held.usage.size) == (13, 200)
    assert held.lane.resend.state is State.BACKING_OFF


def test_a_nack_at_a_page_s_begin_takes_the_whole_page_out_of_flight() -> None:
    held = Held()
    held.send(10, 20)

    held.nack(10, 20)

    assert (held.usage.records, held.usage.size) == (10, 100)
    assert held.lane.pages_in_flight() == {0}


def test_a_nack_takes_the_page_s_bytes_with_it_when_the_part_before_is_settled() -> None:
    held = Held()
    held.send(10)
    held.ack(0, 4)

    held.nack(4, 5)

    assert (held.usage.records, held.usage.size, held.lane.idle) == (0, 0, True)


def test_the_lowest_of_several_nacked_ranges_is_the_one_that_failed() -> None:
    held = Held()
    held.send(20)

    _, revocation = held.lane.nack(
        held.answer(), [Range(15, 16), Range(5, 6)], NOW, delay_s=None, random=0.0, reason=""
    )

    assert revocation == Revocation(5, 1)
    assert held.lane.cursor.attempts == ((5, 1),)


@pytest.mark.parametrize(("first", "end", "outcome"), [(0, 2, ALREADY), (10, 12, UNKNOWN)])
def test_a_nack_of_what_is_not_in_flight_fails_nothing(first: int, end: int, outcome: SettleOutcome) -> None:
    held = Held()
    held.send(10)
    held.ack(0, 2)

    assert held.nack(first, end) == ([(Range(first, end), outcome)], None)
    assert (held.lane.revision, held.lane.resend.state) == (0, State.FLOWING)


def test_records_acked_before_a_failure_are_not_redelivered() -> None:
    held = Held()
    held.send(10)
    held.ack(7, 9)

    held.nack(5, 6)

    assert held.lane.sender.send(0, 10, 100, NOW) == [Range(5, 7), Range(9, 10)]


def test_only_the_head_has_a_deadline_from_when_it_was_sent_or_its_predecessor_settled() -> None:
    held = Held(ack_deadline_us=10_000_000)
    held.send(5, at=NOW)
    held.send(10, at=NOW + 9)

    assert held.lane.deadline() == NOW + 10
    held.ack(3, 5, at=NOW + 1)  # not the head
    assert held.lane.deadline() == NOW + 10
    held.ack(0, 3, at=NOW + 8)
    assert held.lane.deadline() == NOW + 18


def test_a_slow_consumer_that_answers_in_time_never_expires() -> None:
    held = Held(ack_deadline_us=30_000_000)
    held.send(1_000)
    at = NOW
    for offset in range(1_000):
        at += 0.1
        assert held.lane.expire(at, 0.5) is None
        held.ack(offset, offset + 1, at=at)

    assert held.lane.cursor.attempts == ()
    assert held.lane.revision == 0


def test_a_consumer_that_extends_and_answers_once_at_the_end_never_expires() -> None:
    held = Held(ack_deadline_us=30_000_000)
    held.send(1_000)
    at = NOW
    for _ in range(10):
        at += 10.0
        assert held.lane.expire(at, 0.5) is None
        assert held.lane.extend(7, at)

    assert held.ack(0, 1_000, at=at) == [(Range(0, 1_000), OK)]
    assert held.lane.cursor.attempts == ()


def test_only_the_owner_may_extend() -> None:
    held = Held()
    held.send(10)

    assert not held.lane.extend(6, NOW)
    held.lane.release(failed=False)
    assert not held.lane.extend(7, NOW)


def test_a_deadline_that_passes_fails_the_head_and_voids_all() -> None:
    held = Held(ack_deadline_us=10_000_000)
    held.send(10)
    held.ack(0, 4)

    assert held.lane.expire(NOW + 9.9, 0.5) is None
    assert held.lane.expire(NOW + 10, 0.5) == Revocation(4, 1)

    assert (held.lane.idle, held.lane.sender.position, held.lane.cursor.attempts) == (True, 4, ((4, 1),))
    assert held.lane.expire(NOW + 100, 0.5) is None


def test_the_next_timer_is_the_deadline_or_the_end_of_the_back_off() -> None:
    held = Held(ack_deadline_us=10_000_000)
    assert held.lane.next_timer(NOW) is None
    held.send(10)
    assert held.lane.next_timer(NOW) == NOW + 10
    held.lane.nack(held.answer(), [Range(5, 6)], NOW, delay_s=3.0, random=0.0, reason="")
    assert held.lane.next_timer(NOW) == NOW + 3


# -- ownership


def test_an_owner_that_leaves_with_something_in_flight_fails_the_head() -> None:
    held = Held()
    held.send(10)
    held.ack(0, 3)

    held.lane.release(failed=True)

    assert held.lane.cursor.attempts == ((3, 1),)
    assert (held.usage.records, held.usage.size) == (0, 0)
    assert held.lane.owner is None


def test_an_owner_that_leaves_with_nothing_in_flight_fails_nothing() -> None:
    held = Held()

    held.lane.release(failed=True)

    assert held.lane.cursor.attempts == ()


def test_a_new_owner_begins_at_the_watermark_and_old_answers_are_stale() -> None:
    held = Held()
    held.send(10)
    held.ack(0, 3)
    held.lane.release(failed=False)

    held.lane.assign("b", 8, InFlight())

    assert held.lane.sender.position == 3
    assert held.ack(3, 5) == [(Range(3, 5), STALE)]
    assert (held.usage.records, held.usage.size) == (0, 0)


def test_without_an_owner_every_answer_is_stale() -> None:
    held = Held()
    held.send(10)
    held.lane.release(failed=False)

    assert held.ack(0, 5) == [(Range(0, 5), STALE)]


# -- drops, gaps, seeks, pauses


def test_dropped_records_are_counted_and_taken_out_of_flight() -> None:
    held = Held()
    held.send(10)
    held.ack(2, 4)

    assert held.lane.drop([Range(0, 10)], NOW, NEXT) == 8

    assert (held.lane.cursor.dropped, held.lane.cursor.acked, held.lane.cursor.watermark) == (8, 2, 10)
    assert (held.usage.records, held.usage.size) == (0, 0)


def test_a_drop_does_not_settle_a_probe() -> None:
    held = Held()
    held.send(10)
    held.nack(0, 1)
    held.lane.sender.pages_allowed(NOW + 1)
    held.send(10)

    held.lane.drop([Range(0, 10)], NOW + 1, NEXT)

    assert held.lane.resend.state is State.PROBING


def test_a_gap_counts_as_reported_only_once_something_after_it_was_answered() -> None:
    held = Held()
    held.lane.drop([Range(0, 10)], NOW, NEXT)
    held.lane.sender.note_gap_sent(10)
    assert held.lane.cursor.notified == 0

    held.send(20)
    held.ack(10, 11)

    assert held.lane.cursor.notified == 11
    held.lane.release(failed=False)
    held.lane.assign("b", 8, InFlight())
    assert held.lane.sender.position == 11


def test_a_new_owner_gets_the_notice_of_a_gap_without_an_answer_after_it() -> None:
    held = Held()
    held.lane.drop([Range(0, 10)], NOW, NEXT)
    held.lane.sender.note_gap_sent(10)
    held.lane.release(failed=False)

    held.lane.assign("b", 8, InFlight())

    assert held.lane.sender.position == 0


def test_a_gap_that_was_not_reported_is_not_passed_over_by_an_ack_before_it() -> None:
    held = Held()
    held.send(10)
    held.lane.drop([Range(10, 20)], NOW, NEXT)

    held.ack(0, 10)

    assert (held.lane.cursor.watermark, held.lane.cursor.notified, held.lane.sender.position) == (20, 10, 10)


def test_a_seek_opens_a_new_account_and_late_answers_settle_nothing() -> None:
    held = Held()
    held.send(10)
    held.ack(0, 5)

    revocation = held.lane.seek(2, 20)

    assert revocation == Revocation(0, 1)
    assert held.lane.cursor == Cursor(start=2, watermark=2, notified=2, sent=10)
    assert held.ack(5, 10, revision=0) == [(Range(5, 10), STALE)]
    assert held.ack(2, 3, revision=1) == [(Range(2, 3), UNKNOWN)]
    assert (held.usage.records, held.lane.sender.position) == (0, 2)
    assert held.lane.cursor.balances(20)


def test_a_pause_voids_what_is_in_flight_and_a_resume_sends_it_again() -> None:
    held = Held()
    held.send(10)
    held.ack(0, 3)

    assert held.lane.pause("maintenance") == Revocation(0, 1)
    assert held.lane.sender.pages_allowed(NOW) == 0
    assert held.lane.cursor.attempts == ()
    held.lane.resend.resume()

    assert held.lane.sender.pages_allowed(NOW) is None
    assert held.lane.sender.send(0, 10, 100, NOW) == [Range(3, 10)]


def test_pausing_an_idle_lane_revokes_nothing() -> None:
    assert Held().lane.pause("maintenance") is None


def test_with_too_many_holes_nothing_new_is_sent_until_the_lowest_are_settled() -> None:
    held = Held()
    held.send(2 * HOLES_MAX + 2)
    for offset in range(1, 2 * HOLES_MAX + 1, 2):
        held.ack(offset, offset + 1)

    assert held.lane.sender.pages_allowed(NOW) == 0
    held.ack(0, 1)
    assert held.lane.sender.pages_allowed(NOW) is None


# -- settled by a reader with a position of its own


def test_records_settled_below_an_offset_before_they_are_sent_count_as_acked() -> None:
    lane = Lane(Cursor(), DEFAULTS)

    assert lane.settle_below(5, NOW, NEXT) == 5
    assert lane.settle_below(3, NOW, NEXT) == 0
    assert (lane.cursor.watermark, lane.cursor.acked, lane.cursor.notified) == (5, 5, 5)


def test_settling_below_an_offset_includes_the_retry_queue() -> None:
    held = Held(ordering=Ordering.RELAXED)
    held.send(4)
    held.nack(1, 2)
    held.lane.release(failed=False)

    assert held.lane.settle_below(4, NOW, NEXT) == 4
    assert not held.lane.retry.queue
    assert held.lane.cursor.balances(4)


def test_tries_that_failed_are_forgotten_with_the_record_that_is_settled_below_an_offset() -> None:
    held = Held()
    held.send(4)
    held.nack(0, 1)
    held.lane.release(failed=False)

    held.lane.settle_below(4, NOW, NEXT)

    assert held.lane.cursor.attempts == ()


@pytest.mark.parametrize("how", ["seek", "drop", "skip"])
def test_the_delay_of_a_nack_ends_with_the_record_that_it_was_for(how: str) -> None:
    held = Held()
    held.send(10)
    held.lane.nack(held.answer(), [Range(0, 1)], NOW, delay_s=3_600.0, random=0.5, reason="later")
    assert held.lane.sender.pages_allowed(NOW) == 0

    if how == "seek":
        held.lane.seek(5, NEXT)
    elif how == "drop":
        held.lane.drop([Range(0, 10)], NOW, NEXT)
    else:
        held.lane.skip(Range(0, 1), NOW, NEXT)

    assert held.lane.sender.pages_allowed(NOW) is None


def test_the_delay_of_a_nack_outlives_its_owner_and_the_records_that_it_was_not_for() -> None:
    held = Held()
    held.send(10)
    held.lane.nack(held.answer(), [Range(5, 6)], NOW, delay_s=3_600.0, random=0.5, reason="later")
    held.lane.release(failed=False)
    held.lane.assign("another", 2, InFlight())

    held.lane.skip(Range(1, 2), NOW, NEXT)
    assert held.lane.sender.pages_allowed(NOW) == 0
    held.lane.drop([Range(5, 6)], NOW, NEXT)
    assert held.lane.sender.pages_allowed(NOW) is None


def test_the_delay_of_a_nack_ends_with_the_last_record_that_it_was_for() -> None:
    held = Held()
    held.send(10)
    held.lane.nack(held.answer(), [Range(2, 4), Range(7, 8)], NOW, delay_s=3_600.0, random=0.5, reason="later")

    held.lane.drop([Range(0, 7)], NOW, NEXT)
    assert held.lane.sender.pages_allowed(NOW) == 0
    held.lane.drop([Range(7, 8)], NOW, NEXT)
    assert held.lane.sender.pages_allowed(NOW) is None


def test_a_back_off_outlives_a_dropped_record_because_its_target_has_failed() -> None:
    held = Held()
    held.send(10)
    held.lane.nack(held.answer(), [Range(0, 1)], NOW, delay_s=None, random=0.5, reason="it said 503")

    held.lane.drop([Range(0, 10)], NOW, NEXT)

    assert held.lane.sender.pages_allowed(NOW) == 0
