"""Sending one delivery and settling it, strictly in order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.client import BrokerUnavailable
from forebay.client.errors import AccessDenied, ForebayError
from forebay.deliver import Batch, BatchLimits, Delivered, Outcome, Reject, Retry, TargetClosed
from forebay.deliver.dispatcher import Dispatcher
from forebay.deliver.health import TargetHealth
from forebay.deliver.partition_executor import PartitionExecutor
from forebay.deliver.source import SourceDelivery
from forebay.deliver.telemetry import Instruments
from tests.support.targets.memory_source import MemoryDelivery, MemoryRecord, MemoryRun, records, runs
from tests.support.targets.recording_target import RecordingTarget, Rule

WAIT_S = 20.0


def dispatcher(
    target: RecordingTarget, *, records_max: int = 100, stopping: Callable[[], bool] = lambda: False
) -> Dispatcher:
    """Return a dispatcher to ``target``."""
    return Dispatcher(
        "orders",
        target,
        BatchLimits(records_max=records_max),
        retry_delay_max_s=60.0,
        instruments=Instruments("orders", "default"),
        health=TargetHealth("orders", "default"),
        stopping=stopping,
    )


def rejecting(*offsets: int) -> Rule:
    """Return a rule that rejects every batch in which one of the offsets is."""

    def rule(batch: Batch) -> Outcome:
        found = any(record.offset in offsets for record in batch.records)
        return Reject("HTTP 422") if found else Delivered()

    return rule


def failing_at(offset: int, outcome: Outcome) -> Rule:
    """Return a rule that gives ``outcome`` for the batch with ``offset``."""
    return lambda batch: outcome if batch.first_offset <= offset <= batch.last_offset else Delivered()


def test_every_batch_is_acked_in_order() -> None:
    delivery = MemoryDelivery(records(5))

    dispatcher(RecordingTarget(), records_max=2).deliver(delivery)

    assert delivery.acked == [(0, 1), (2, 3), (4, 4)]
    assert delivery.extended == 3


def with_bad_ones(*bad: int) -> list[MemoryRecord]:
    """Return six records, some of which cannot be decoded."""
    return [
        MemoryRecord(each.offset, b"", unreadable="not UTF-8") if each.offset in bad else each for each in records(6)
    ]


@pytest.mark.parametrize("relaxed", [False, True])
def test_records_that_cannot_be_decoded_become_dead_letters_and_the_others_are_delivered(relaxed: bool) -> None:
    target = RecordingTarget()
    delivery = MemoryDelivery(with_bad_ones(1, 2, 5), relaxed=relaxed)

    dispatcher(target).deliver(delivery)

    assert target.asked == [(0, 0), (3, 4)]
    assert delivery.acked == [(0, 0), (3, 4)]
    assert delivery.dead == [(offset, "cannot be decoded: not UTF-8") for offset in (1, 2, 5)]


def test_in_strict_order_nothing_is_sent_after_such_a_record_before_it_is_out_of_the_line() -> None:
    target = RecordingTarget()
    delivery = MemoryDelivery(with_bad_ones(1), takes_dead_letters=False)

    dispatcher(target).deliver(delivery)

    assert target.asked == [(0, 0)]


def test_after_a_retry_nothing_of_the_delivery_is_sent() -> None:
    target = RecordingTarget(failing_at(2, Retry("HTTP 503", delay_s=7.0)))
    delivery = MemoryDelivery(records(6))

    dispatcher(target, records_max=2).deliver(delivery)

    assert delivery.acked == [(0, 1)]
    assert delivery.given_back == [(2, 7.0, "HTTP 503")]
    assert target.asked == [(0, 1), (2, 3)]


def test_a_retry_in_the_middle_of_a_batch_keeps_what_was_taken() -> None:
    target = RecordingTarget(failing_at(2, Retry("away", delivered=2)))
    delivery = MemoryDelivery(records(4))

    dispatcher(target).deliver(delivery)

    assert delivery.acked == [(0, 1)]
    assert delivery.given_back == [(2, None, "away")]


@pytest.mark.parametrize(("asked_s", "given_s"), [(1e9, 60.0), (-5.0, 0.0), (0.0, 0.0)])
def test_a_delay_is_kept_within_its_bound(asked_s: float, given_s: float) -> None:
    delivery = MemoryDelivery(records(1))

    dispatcher(RecordingTarget(failing_at(0, Retry("away", delay_s=asked_s)))).deliver(delivery)

    assert delivery.given_back == [(0, given_s, "away")]


@given(count=st.integers(1, 300), data=st.data())
def test_halving_finds_exactly_the_records_at_fault_and_acks_all_others(count: int, data: st.DataObject) -> None:
    fault = data.draw(st.integers(0, count - 1))
    others = data.draw(st.sets(st.integers(fault, count - 1), max_size=3))
    target = RecordingTarget(rejecting(fault, *others))
    delivery = MemoryDelivery(records(count))

    dispatcher(target, records_max=1000).deliver(delivery)

    faults = sorted({fault, *others})
    left = [offset for offset in range(count) if offset not in faults]
    assert delivery.dead == [(offset, "HTTP 422") for offset in faults]
    assert target.taken.get(0, []) == left
    assert [offset for first, last in delivery.acked for offset in range(first, last + 1)] == left
    assert len(target.asked) <= 1 + 2 * len(faults) * max(1, math.ceil(math.log2(count)))


def test_a_batch_that_is_only_too_large_is_taken_in_halves() -> None:
    target = RecordingTarget(lambda batch: Reject("HTTP 413") if len(batch) > 2 else Delivered())
    delivery = MemoryDelivery(records(8))

    dispatcher(target).deliver(delivery)

    assert delivery.acked == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert delivery.dead == []


def test_an_exact_reject_needs_no_halving() -> None:
    target = RecordingTarget(failing_at(3, Reject("no", delivered=3, exact=True)))
    delivery = MemoryDelivery(records(8))

    dispatcher(target).deliver(delivery)

    assert delivery.acked == [(0, 2), (4, 7)]
    assert delivery.dead == [(3, "no")]
    assert len(target.asked) == 2


def test_a_failure_while_halving_nacks_from_the_first_record_not_taken() -> None:
    def rule(batch: Batch) -> Outcome:
        if len(batch) > 4:
            return Reject("HTTP 422")
        return Delivered() if batch.first_offset == 0 else Retry("HTTP 503")

    delivery = MemoryDelivery(records(8))

    dispatcher(RecordingTarget(rule)).deliver(delivery)

    assert delivery.acked == [(0, 3)]
    assert delivery.given_back == [(4, None, "HTTP 503")]
    assert delivery.dead == []


def test_after_a_dead_letter_the_next_record_is_sent() -> None:
    target = RecordingTarget(rejecting(1))
    delivery = MemoryDelivery(records(6))

    dispatcher(target, records_max=2).deliver(delivery)

    assert delivery.dead == [(1, "HTTP 422")]
    assert target.taken[0] == [0, 2, 3, 4, 5]


def test_after_a_dead_letter_that_was_not_taken_nothing_of_the_delivery_is_sent() -> None:
    target = RecordingTarget(rejecting(1))
    delivery = MemoryDelivery(records(6), takes_dead_letters=False)

    dispatcher(target, records_max=2).deliver(delivery)

    assert delivery.dead == [(1, "HTTP 422")]
    assert max(last for _, last in target.asked) == 1


def test_an_exception_of_the_target_is_retried() -> None:
    def rule(batch: Batch) -> Outcome:
        raise LookupError("secret payload")

    delivery = MemoryDelivery(records(3))

    dispatcher(RecordingTarget(rule)).deliver(delivery)

    ((offset, delay_s, reason),) = delivery.given_back
    assert (offset, delay_s) == (0, None)
    assert reason.startswith("LookupError at ")
    assert "secret" not in reason


def test_a_target_that_is_gone_ends_it_and_settles_nothing() -> None:
    def rule(batch: Batch) -> Outcome:
        raise TargetClosed("closed")

    delivery = MemoryDelivery(records(3))

    with pytest.raises(TargetClosed):
        dispatcher(RecordingTarget(rule)).deliver(delivery)

    assert (delivery.acked, delivery.given_back, delivery.dead) == ([], [], [])


@dataclass
class Undecodable(MemoryDelivery):
    """A delivery whose records from an offset on cannot be decoded now."""

    readable: int = 0
    error: ForebayError = field(default_factory=lambda: BrokerUnavailable("the schema is not available"))

    def runs(self) -> Iterator[MemoryRun]:
        yield from runs(self.records[: self.readable])
        raise self.error


@pytest.mark.parametrize(("readable", "acked", "from_offset"), [(0, [], 0), (5, [(0, 1), (2, 3)], 4)])
def test_records_whose_schema_is_not_available_are_redelivered(
    readable: int, acked: list[tuple[int, int]], from_offset: int
) -> None:
    one = Undecodable(records(6), readable=readable)

    dispatcher(RecordingTarget(), records_max=2).deliver(one)

    assert one.acked == acked
    [(offset, _, reason)] = one.given_back
    assert (offset, reason.startswith("cannot be decoded yet: BrokerUnavailable")) == (from_offset, True)


def test_a_revoked_delivery_that_cannot_be_decoded_is_left() -> None:
    one = Undecodable(records(6), void_from=0)

    dispatcher(RecordingTarget()).deliver(one)

    assert (one.acked, one.given_back) == ([], [])


def test_an_error_of_decoding_that_lasts_is_raised() -> None:
    one = Undecodable(records(6), error=AccessDenied("no right to read schemas"))

    with pytest.raises(AccessDenied):
        dispatcher(RecordingTarget()).deliver(one)


def test_a_revoked_delivery_is_not_sent() -> None:
    target = RecordingTarget()

    dispatcher(target).deliver(MemoryDelivery(records(3), void_from=0))

    assert target.asked == []


def test_a_delivery_revoked_between_two_batches_is_not_sent_further() -> None:
    delivery = MemoryDelivery(records(6))

    def rule(batch: Batch) -> Outcome:
        delivery.void_from = 2
        return Delivered()

    target = RecordingTarget(rule)

    dispatcher(target, records_max=2).deliver(delivery)

    assert target.asked == [(0, 1)]
    assert delivery.acked == [(0, 1)]


def test_records_revoked_while_a_batch_is_halved_are_not_sent() -> None:
    delivery = MemoryDelivery(records(8))

    def rule(batch: Batch) -> Outcome:
        if len(batch) == 8:
            delivery.void_from = 2
            return Reject("HTTP 422")
        return Delivered()

    target = RecordingTarget(rule)

    dispatcher(target).deliver(delivery)

    assert target.asked == [(0, 7), (0, 1)]
    assert delivery.acked == [(0, 1)]
    assert delivery.dead == []


def test_a_gap_is_noted_and_neither_sent_nor_settled() -> None:
    target = RecordingTarget()
    delivery = MemoryDelivery([], gap="offsets 0 to 9")

    dispatcher(target).deliver(delivery)

    assert target.asked == []
    assert delivery.acked == []


def test_nothing_is_sent_once_the_deliverer_stops() -> None:
    target = RecordingTarget()
    delivery = MemoryDelivery(records(3))

    dispatcher(target, stopping=lambda: True).deliver(delivery)

    assert target.asked == []
    assert delivery.given_back == []


def test_in_relaxed_order_only_the_batch_that_failed_goes_back_and_the_next_one_is_sent() -> None:
    target = RecordingTarget(failing_at(2, Retry("HTTP 503", delay_s=7.0)))
    delivery = MemoryDelivery(records(6), relaxed=True)

    dispatcher(target, records_max=2).deliver(delivery)

    assert delivery.acked == [(0, 1), (4, 5)]
    assert (delivery.given_back, delivery.given_back_last) == ([(2, 7.0, "HTTP 503")], [3])


def test_in_relaxed_order_a_rejected_record_does_not_keep_the_others() -> None:
    delivery = MemoryDelivery(records(6), relaxed=True)

    dispatcher(RecordingTarget(rejecting(2))).deliver(delivery)

    assert delivery.dead == [(2, "HTTP 422")]
    assert sorted(offset for first, last in delivery.acked for offset in range(first, last + 1)) == [0, 1, 3, 4, 5]


def test_redelivered_records_go_to_the_second_target_in_batches_of_its_own_size() -> None:
    first, second = RecordingTarget(), RecordingTarget()
    both = Dispatcher(
        "orders",
        first,
        BatchLimits(records_max=4),
        resend_to=(second, BatchLimits(records_max=2)),
        retry_delay_max_s=60.0,
        instruments=Instruments("orders", "default"),
        health=TargetHealth("orders", "default"),
        stopping=lambda: False,
    )

    both.deliver(MemoryDelivery(records(4)))
    both.deliver(MemoryDelivery(records(4, first=4), resend=True))

    assert (first.asked, second.asked) == ([(0, 3)], [(4, 5), (6, 7)])


def test_after_a_dead_letter_that_is_not_confirmed_nothing_is_sent_and_nothing_fails() -> None:
    target, stopping = RecordingTarget(rejecting(1)), Event()

    def confirms() -> bool:
        stopping.set()
        return False

    delivery = MemoryDelivery(records(4), confirms=confirms)

    dispatcher(target, records_max=1, stopping=stopping.is_set).deliver(delivery)

    assert (delivery.acked, delivery.given_back) == ([(0, 0)], [])
    assert [offset for offset, _ in delivery.dead] == [1]
    assert target.asked == [(0, 0), (1, 1)]


def test_no_later_delivery_overtakes_one_whose_dead_letter_is_confirmed_late(caplog: pytest.LogCaptureFixture) -> None:
    target, done = RecordingTarget(rejecting(1)), SimpleQueue[MemoryDelivery]()
    asked_when_late: list[list[tuple[int, int]]] = []

    def confirms() -> bool:
        asked_when_late.append(list(target.asked))
        return len(asked_when_late) > 2

    deliveries = [MemoryDelivery(records(4), confirms=confirms), MemoryDelivery(records(4, first=4))]
    one = dispatcher(target, records_max=1)

    def work(delivery: SourceDelivery) -> None:
        one.deliver(delivery)
        assert isinstance(delivery, MemoryDelivery)
        done.put(delivery)

    lanes = PartitionExecutor(
        work,
        threads=1,
        on_failure=lambda error: pytest.fail(repr(error)),
        limits_of=one.limits_of,
        credit_records=1 << 30,
        credit_bytes=1 << 30,
    )
    for delivery in deliveries:
        lanes.put(delivery)
    ended = [done.get(timeout=WAIT_S) for _ in deliveries]
    assert lanes.drain(WAIT_S)
    lanes.close()

    assert ended == deliveries
    assert asked_when_late == [[(0, 0), (1, 1)]] * 3
    assert target.asked == [(offset, offset) for offset in range(8)]
    assert [offset for each in deliveries for offset, _ in each.acked] == [0, 2, 3, 4, 5, 6, 7]
    assert sum("dead letter not confirmed" in record.message for record in caplog.records) == 1


def test_a_delivery_whose_dead_letter_is_late_keeps_its_deadline() -> None:
    one = dispatcher(RecordingTarget(rejecting(0)))
    extended: list[int] = []

    def confirms() -> bool:
        before = delivery.extended
        one.extend_waiting()
        extended.append(delivery.extended - before)
        return len(extended) == 2

    delivery = MemoryDelivery(records(1), confirms=confirms)

    one.deliver(delivery)
    before = delivery.extended
    one.extend_waiting()

    assert extended == [1, 1]
    assert delivery.extended == before


class Turns(RecordingTarget):
    """Target that does something while a send waits for its turn, and keeps the offsets that are sent within one."""

    def __init__(self, wait: Callable[[], object]) -> None:
        super().__init__(lambda _: Delivered() if self.is_on_turn else Retry("out of turn"))
        self.is_on_turn = False
        self.turns = 0
        self._wait = wait

    @contextmanager
    def send_turn(self) -> Iterator[None]:
        self.turns += 1
        self._wait()
        self.is_on_turn = True
        yield
        self.is_on_turn = False


def test_each_send_has_a_turn_and_the_deadline_is_extended_before_it() -> None:
    extended: list[int] = []

    def wait() -> None:
        before = delivery.extended
        one.extend_waiting()
        extended.append(delivery.extended - before)

    target = Turns(wait)
    one, delivery = dispatcher(target, records_max=2), MemoryDelivery(records(4))

    one.deliver(delivery)

    assert (target.turns, extended) == (2, [1, 1])
    assert delivery.acked == [(0, 1), (2, 3)]
    before = delivery.extended
    one.extend_waiting()
    assert delivery.extended == before


@pytest.mark.parametrize(("void_from", "sent"), [(0, []), (3, [(0, 2)])])
def test_a_batch_that_became_void_while_it_waited_for_its_turn_is_not_sent(
    void_from: int, sent: list[tuple[int, int]]
) -> None:
    def revoke() -> None:
        delivery.void_from = void_from

    target, delivery = Turns(revoke), MemoryDelivery(records(5))

    dispatcher(target).deliver(delivery)

    assert (target.asked, delivery.acked) == (sent, sent)


def test_a_deliverer_that_stopped_while_it_waited_for_its_turn_sends_nothing() -> None:
    stopping = Event()
    target, delivery = Turns(stopping.set), MemoryDelivery(records(5))

    dispatcher(target, stopping=stopping.is_set).deliver(delivery)

    assert (target.asked, delivery.acked, delivery.given_back) == ([], [], [])
