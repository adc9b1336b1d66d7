"""Explanation of a record: location, state in the subscription, and the cause of a wait."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from forebay.broker.core.delivery import sender
from forebay.broker.core.delivery.in_flight import InFlight
from forebay.broker.core.delivery.lane import Answer, Lane
from forebay.broker.core.delivery.redelivery import State
from forebay.broker.core.partition.cursor import Cursor, Settlement
from forebay.broker.core.partition.explanation import (
    Explanation,
    Moment,
    Owner,
    RecordPlace,
    RecordState,
    Wait,
    Waiting,
    explain,
)
from forebay.broker.core.partition.gaps import Rejections
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.partition.pages import DropReason, Gap
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import DEFAULTS, Ordering
from tests.support.pages.samples import entry
from tests.unit.broker.core.partition.test_log import append

NOW = 1_000.0
OWNER = Owner("a", credit_records=1_000, credit_size=1_000_000, used_records=0, used_size=0, accepts=True)


class Asked:
    """A partition of ten pages of ten records, a lane on it, and short words for what happens to them."""

    def __init__(self, *, pages: int = 10, **settings: Any) -> None:
        self.log = PartitionLog(0)
        for index in range(pages):
            append(self.log, entry(10 * index, 10))
        self.lane = Lane(Cursor(), replace(DEFAULTS, **settings))
        self.lane.assign("a", 7, InFlight())
        self.owner: Owner | None = OWNER
        self.now = NOW

    def ask(self, offset: int, *, moving_until: float | None = None, recent: bool = False) -> Explanation:
        found = next((page for page in self.log.first_entries() if page.base <= offset < page.end), None)
        moment = Moment(self.now, self.owner, moving_until, found, recent)
        return explain(self.log, self.lane, "default", offset, moment)

    def send(self, pages: int = 1) -> None:
        for _ in range(pages):
            base = self.lane.sender.position
            self.lane.sender.send(base, base + 10, 100, self.now)

    def settle(self, first: int, end: int, how: Settlement = Settlement.ACKED) -> None:
        self.lane.settle(Answer(7, self.lane.revision), Range(first, end), how, self.now, self.log.tail.next_offset)

    def drop(self, base: int, reason: DropReason = DropReason.OVERFLOW) -> None:
        self.log.remove([entry(base, 10)], reason=reason, at_us=5)
        self.lane.drop([Range(base, base + 10)], self.now, self.log.tail.next_offset)

    def trim(self, base: int) -> None:
        self.log.remove([entry(base, 10)], reason=None, at_us=0)

    def fail(self, offset: int, *, delay_s: float | None = 5.0) -> None:
        answer = Answer(7, self.lane.revision)
        self.lane.nack(answer, [Range(offset, offset + 1)], self.now, delay_s=delay_s, random=0.5, reason="it said 503")

    def waits(self, offset: int = 50, **moment: Any) -> tuple[Wait, float | None, str]:
        waiting = self.ask(offset, **moment).waiting
        return waiting.reason, waiting.until, waiting.detail


# -- where it is


def test_an_offset_that_no_record_has_waits_for_one() -> None:
    found = Asked().ask(100)

    assert (found.place, found.state, found.waiting) == (RecordPlace.NOT_ASSIGNED, None, Waiting(Wait.RECORD))
    assert (found.next_offset, found.before, found.delivered_before) == (100, 100, False)


def test_a_record_that_waits_for_its_batch_says_so() -> None:
    requested = Asked()
    requested.log.reserve(5, 50)

    found = requested.ask(104)

    assert (found.place, found.state, found.waiting.reason) == (
        RecordPlace.AWAITING_COMMIT,
        RecordState.PENDING,
        Wait.COMMIT,
    )
    assert requested.ask(105).place is RecordPlace.NOT_ASSIGNED


def test_a_stored_record_is_on_disk_or_among_the_recent_pages() -> None:
    requested = Asked()

    assert (requested.ask(55).place, requested.ask(55, recent=True).place) == (RecordPlace.DISK, RecordPlace.RECENT)
    assert requested.ask(55).entry == entry(50, 10)


def test_a_dropped_record_is_in_its_gap() -> None:
    requested = Asked()
    requested.drop(50)

    found = requested.ask(55)

    assert (found.place, found.entry) == (RecordPlace.DROPPED, None)
    assert found.gap == Gap(50, 60, DropReason.OVERFLOW, 5, 100, 1)


def test_a_trimmed_record_is_gone_because_it_was_settled() -> None:
    requested = Asked()
    requested.send()
    requested.settle(0, 10)
    requested.trim(0)

    found = requested.ask(3)

    assert (found.place, found.state, found.waiting.reason) == (RecordPlace.TRIMMED, RecordState.ACKED, Wait.NOTHING)


def test_a_record_whose_page_the_index_does_not_name_is_missing() -> None:
    requested = Asked()

    found = explain(requested.log, requested.lane, "default", 55, Moment(NOW, OWNER, None, None, recent=False))

    assert found.place is RecordPlace.MISSING


# -- what the subscription has done with it


def test_a_record_in_flight_says_to_whom_since_when_and_until_when() -> None:
    requested = Asked(ack_deadline_us=30_000_000)
    requested.send(2)
    requested.now = NOW + 4.0

    found = requested.ask(15)

    assert (found.state, found.owner, found.owner_epoch, found.sent_at) == (RecordState.IN_FLIGHT, "a", 7, NOW)
    assert found.waiting == Waiting(Wait.ANSWER, NOW + 30.0)
    assert (found.before, found.delivered_before) == (15, True)


def test_an_acked_record_within_a_page_in_flight_is_settled() -> None:
    requested = Asked()
    requested.send()
    requested.settle(3, 5)

    assert (requested.ask(4).state, requested.ask(4).owner) == (RecordState.ACKED, None)
    assert (requested.ask(5).state, requested.ask(5).before) == (RecordState.IN_FLIGHT, 3)


def test_the_settlement_of_a_record_is_known_while_the_account_has_one_kind_only() -> None:
    requested = Asked()
    requested.send(2)
    requested.settle(0, 5, Settlement.DEAD_LETTERED)
    known = requested.ask(3).state
    requested.settle(5, 10)

    assert known is RecordState.DEAD_LETTERED
    assert requested.ask(3).state is RecordState.SETTLED


def test_a_dropped_record_was_unsettled_where_the_account_counts_every_missing_one() -> None:
    requested = Asked()
    requested.send()
    requested.settle(0, 10)
    requested.drop(50)
    whole = requested.ask(55).state
    requested.send()
    requested.settle(10, 15)
    requested.drop(10)

    assert whole is RecordState.DROPPED
    assert [requested.ask(offset).state for offset in (5, 12, 17, 55)] == [
        RecordState.ACKED,
        RecordState.SETTLED,
        RecordState.SETTLED,
        RecordState.SETTLED,
    ]


def test_a_record_that_was_acked_before_its_page_was_dropped_is_acked() -> None:
    requested = Asked()
    requested.send()
    requested.settle(0, 10)
    requested.drop(0)

    assert (requested.ask(5).place, requested.ask(5).state) == (RecordPlace.DROPPED, RecordState.ACKED)


def test_a_record_below_the_account_s_start_is_not_the_subscription_s() -> None:
    requested = Asked()
    requested.lane.seek(40, 100)

    assert (requested.ask(39).state, requested.ask(40).state) == (RecordState.BEFORE_START, RecordState.PENDING)


def test_offsets_that_were_missing_when_the_account_opened_count_as_dropped() -> None:
    requested = Asked()
    requested.drop(40)
    requested.lane.seek(45, 100)
    requested.lane.drop([Range(45, 50)], NOW, 100)

    assert (requested.ask(44).state, requested.ask(47).state) == (RecordState.BEFORE_START, RecordState.DROPPED)


def test_a_gap_over_settled_records_that_begins_before_the_account_leaves_it_open() -> None:
    requested = Asked()
    whole = Gap(0, 50, DropReason.OVERFLOW, 5, 0, 0, merged=((1, 20),))
    requested.log = PartitionLog(0, requested.log.tail, replace(requested.log.head, earliest=50), (whole,))
    requested.lane.seek(45, 100)
    requested.lane.drop([Range(45, 50)], NOW, 100)

    assert requested.ask(47).state is RecordState.SETTLED


def test_a_record_that_the_subscription_dropped_is_still_stored_for_others() -> None:
    requested = Asked()
    requested.send()
    requested.settle(3, 4, Settlement.DROPPED)
    requested.log.reject("default", [Range(3, 4)], settled_to=0, at_us=9, detail="no such column")

    found = requested.ask(3)

    assert (found.place, found.state, found.gap) == (RecordPlace.DISK, RecordState.DROPPED, None)
    assert found.rejection is not None
    assert (found.rejection.detail, found.rejection.at_us) == ("no such column", 9)


def test_the_settlement_of_a_record_in_a_merged_rejection_is_unknown() -> None:
    requested = Asked()
    requested.send()
    requested.settle(0, 10, Settlement.DROPPED)
    wide = Gap(0, 10, DropReason.REJECTED_BY_TARGET, 9, 0, 0, 5, ((9, 4),), "default")
    requested.log.rejections = Rejections([wide])

    assert requested.ask(3).state is RecordState.SETTLED


def test_failed_tries_are_counted() -> None:
    requested = Asked()
    for _ in range(2):
        requested.send()
        requested.fail(0, delay_s=0.0)
        requested.lane.sender.pages_allowed(NOW)

    assert (requested.ask(0).attempts, requested.ask(1).attempts, requested.ask(0).watermark) == (2, 0, 0)


# -- what its delivery waits for


def test_the_record_that_goes_out_next_waits_for_nothing_and_the_others_for_it() -> None:
    requested = Asked()

    assert requested.waits(0) == (Wait.NOTHING, None, "")
    assert requested.waits(50) == (Wait.BEHIND, None, "")
    assert requested.ask(50).before == 50


def test_a_paused_sink_waits_for_its_resume() -> None:
    requested = Asked()
    requested.owner = None
    requested.lane.pause("the target is being moved")

    assert requested.waits() == (Wait.PAUSED, None, "the target is being moved")
    assert requested.ask(50).delivery is State.PAUSED


def test_nothing_is_sent_while_a_purge_is_under_way() -> None:
    requested = Asked()
    requested.lane.sender.held = True

    assert requested.waits() == (Wait.PURGE, None, "")


def test_without_a_consumer_nothing_is_sent() -> None:
    requested = Asked()
    requested.owner = None

    assert requested.waits() == (Wait.NO_CONSUMER, None, "")


def test_a_consumer_that_pulls_has_to_pull_again() -> None:
    requested = Asked()
    requested.owner = replace(OWNER, accepts=False)

    assert requested.waits() == (Wait.PULL, None, "")


def test_a_partition_that_goes_to_another_consumer_waits_for_its_owner() -> None:
    requested = Asked()

    assert requested.waits(moving_until=NOW + 9.0) == (Wait.MOVING, NOW + 9.0, "")


def test_after_a_failure_the_next_try_has_its_time() -> None:
    requested = Asked()
    requested.send()
    requested.fail(0)

    assert requested.waits() == (Wait.BACKING_OFF, NOW + 5.0, "it said 503")
    requested.now = NOW + 5.0
    assert requested.waits(0) == (Wait.NOTHING, None, "")


def test_while_a_probe_is_in_flight_all_others_wait_for_its_answer() -> None:
    requested = Asked()
    requested.send()
    requested.fail(0)
    requested.now = NOW + 5.0
    requested.lane.sender.pages_allowed(requested.now)
    requested.send()

    assert requested.waits(15) == (Wait.PROBING, requested.now + 30.0, "it said 503")
    assert requested.waits(5)[0] is Wait.ANSWER


def test_resends_wait_for_each_other_and_for_the_interval() -> None:
    requested = Asked(resend_interval_us=2_000_000)
    requested.send()
    requested.fail(0, delay_s=0.0)
    requested.lane.sender.pages_allowed(NOW)
    requested.send()
    requested.settle(0, 10)

    assert requested.waits() == (Wait.RESEND_INTERVAL, NOW + 2.0, "")
    requested.now = NOW + 2.0
    assert requested.waits()[0] is Wait.BEHIND
    requested.send()
    assert requested.waits() == (Wait.RESEND_INTERVAL, None, "")


def test_too_many_ranges_beyond_the_watermark_hold_the_partition(monkeypatch: Any) -> None:
    monkeypatch.setattr(sender, "HOLES_MAX", 3)
    requested = Asked()
    requested.send()
    for offset in (2, 4, 6):
        requested.settle(offset, offset + 1)

    assert requested.waits() == (Wait.ACK_HOLES_FULL, None, "")


def test_used_up_credit_is_reported_with_its_figures() -> None:
    requested = Asked()
    requested.owner = replace(OWNER, used_records=1_000, used_size=10)

    assert requested.waits() == (Wait.NO_CREDIT, None, "1000 of 1000 records, 10 of 1000000 bytes")
    requested.owner = replace(OWNER, used_records=1, used_size=10, credit_records=1)
    assert requested.waits() == (Wait.NO_CREDIT, None, "1 of 1 record, 10 of 1000000 bytes")
    requested.owner = replace(OWNER, used_records=1, used_size=1_000_000)
    assert requested.waits()[0] is Wait.NO_CREDIT
    requested.owner = replace(OWNER, credit_records=0)
    assert requested.waits()[0] is Wait.NO_CREDIT


def test_a_byte_credit_below_the_record_does_not_hold_it_when_nothing_is_in_flight() -> None:
    """Said of it, too."""
    requested = Asked()
    requested.owner = replace(OWNER, credit_size=0)

    assert requested.waits(0) == (Wait.NOTHING, None, "")


def test_the_sink_s_own_bound_of_bytes_in_flight_is_distinguished_from_credit() -> None:
    requested = Asked(in_flight_bytes_max=65_536)
    requested.owner = replace(OWNER, used_records=5, used_size=70_000)

    assert requested.waits() == (Wait.IN_FLIGHT_LIMIT, None, "70000 of 65536 bytes")


def test_a_leased_record_says_who_has_it_until_when_and_since_when() -> None:
    requested = Asked(ordering=Ordering.RELAXED)
    requested.send()
    requested.fail(3, delay_s=0.0)
    requested.lane.lease_manager.lease_due("spark-1", NOW + 60, Range(0, 10), NOW + 1, records_max=5)

    found = requested.ask(3)

    assert (found.state, found.owner, found.sent_at, found.attempts) == (RecordState.LEASED, None, NOW + 1, 1)
    assert found.lease is not None
    assert (found.lease.holder, found.lease.until) == ("spark-1", NOW + 60)
    assert requested.waits(3) == (Wait.LEASE, NOW + 60, "spark-1")
    requested.lane.settle_leased("spark-1", Range(3, 4), NOW, 100)
    assert (requested.ask(3).state, requested.ask(3).lease) == (RecordState.ACKED, None)
