"""Void deliveries: never returned, and ended early where they are in use."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.client import Delivery, DropReason, Encoding, Gap, Ordering, PagePart, SettleResult, StoredPage
from forebay.client.consume.answers import AnswerKind
from forebay.client.consume.in_flight import InFlight, Loading
from forebay.client.consume.receive_buffer import ReceiveBuffer
from forebay.client.publish.pages import encode_columns
from forebay.client.values.ranges import Range

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Nobody:
    """A settler for deliveries that no consumer settles."""

    clock = staticmethod(time.monotonic)

    def touch(self, delivery: InFlight) -> float:
        return math.inf

    def settle(self, delivery: InFlight, verb: AnswerKind, ranges: list[Range], **_: Any) -> list[SettleResult]:
        return []


def delivery(
    first: int,
    last: int,
    *,
    partition: int = 0,
    owner_epoch: int = 7,
    revision: int = 0,
    ordering: Ordering = Ordering.STRICT,
    resend: bool = False,
) -> InFlight:
    count = last - first + 1
    page = StoredPage(
        partition,
        first,
        count,
        Encoding.RECORDS,
        encode_columns([b"%d" % offset for offset in range(first, last + 1)]).body,
        (PagePart(first, NOON, ""),),
        first,
        last,
    )
    return InFlight(
        partition=partition,
        incarnation="i",
        owner_epoch=owner_epoch,
        revision=revision,
        pages=(page,),
        ordering=ordering,
        resend=resend,
    )


def gap(first: int, last: int) -> InFlight:
    missing = Gap(0, first, last, DropReason.OVERFLOW, NOON)
    return InFlight(partition=0, incarnation="i", gap=missing)


def of_user(taken: InFlight) -> Delivery:
    return Delivery(taken, Nobody())


def receive_buffer(*deliveries: InFlight) -> ReceiveBuffer:
    found = ReceiveBuffer()
    found.assigned({0: (7, 0), 1: (8, 0)})
    for one in deliveries:
        assert found.arrived(one, now=0)
    return found


def queued(found: ReceiveBuffer) -> Iterator[tuple[int, int, int]]:
    while (one := found.take()) is not None:
        yield one.partition, one.first_offset, one.last_offset


def test_deliveries_are_handed_out_in_the_order_in_which_they_came() -> None:
    found = receive_buffer(delivery(0, 4), delivery(0, 2, partition=1, owner_epoch=8), delivery(5, 9))

    assert list(queued(found)) == [(0, 0, 4), (1, 0, 2), (0, 5, 9)]


def test_a_delivery_whose_schema_is_fetched_keeps_its_place_and_can_be_voided() -> None:
    awaited = Loading()
    first, second = delivery(0, 4), delivery(5, 9)
    first.loading = awaited
    found = receive_buffer(first, second)
    found.revoked(0, 3, 1)

    before = found.has_next, found.take(), len(found)
    awaited.is_done = True

    assert before == (False, None, 1)
    assert list(queued(found)) == [(0, 0, 2)]


def test_revoked_records_are_not_handed_out_and_the_rest_of_their_page_is() -> None:
    found = receive_buffer(delivery(0, 4), delivery(0, 2, partition=1, owner_epoch=8), delivery(5, 9))

    found.revoked(0, from_offset=3, revision=1)

    assert list(queued(found)) == [(0, 0, 2), (1, 0, 2)]


def test_the_user_s_own_nack_voids_what_is_queued_before_the_broker_says_so() -> None:
    first = delivery(0, 4)
    found = receive_buffer(first, delivery(5, 9))
    assert found.take() is first

    found.nacked(first, 2)

    assert first.void_from == 2
    assert [record.offset for record in of_user(first)] == [0, 1]
    assert list(queued(found)) == []


def test_a_delivery_sent_before_the_broker_received_the_nack_is_void() -> None:
    first = delivery(0, 4)
    found = receive_buffer(first)
    found.take()
    found.nacked(first, 2)

    assert not found.arrived(delivery(5, 9), now=0)
    found.revoked(0, from_offset=2, revision=1)
    assert found.arrived(delivery(2, 9, revision=1), now=0)
    assert list(queued(found)) == [(0, 2, 9)]


def test_a_straggler_of_an_older_revision_is_void() -> None:
    found = receive_buffer()
    found.revoked(0, from_offset=0, revision=2)

    assert not found.arrived(delivery(0, 4, revision=1), now=0)


def test_a_delivery_that_is_iterated_ends_where_it_was_revoked() -> None:
    taken = delivery(0, 4)
    found = receive_buffer(taken)
    found.take()
    seen = []

    delivered = of_user(taken)
    for record in delivered:
        seen.append(record.offset)
        if record.offset == 2:
            found.revoked(0, from_offset=3, revision=1)

    assert seen == [0, 1, 2]
    assert len(taken) == 3
    assert delivered.values() == [b"0", b"1", b"2"]
    assert not taken.stale


def test_a_lost_partition_takes_its_deliveries_with_it() -> None:
    taken = delivery(0, 4)
    found = receive_buffer(taken, delivery(5, 9), delivery(0, 0, partition=1, owner_epoch=8))
    found.take()

    void = found.assigned({1: (8, 0)})

    assert void == [taken]
    assert taken.stale
    assert not found.is_current(taken)
    assert list(queued(found)) == [(1, 0, 0)]


def test_a_partition_under_a_new_owner_epoch_is_another_one() -> None:
    taken = delivery(0, 4)
    found = receive_buffer(taken)
    found.take()

    found.assigned({0: (9, 0), 1: (8, 0)})

    assert taken.stale
    assert not found.arrived(delivery(0, 4), now=0)
    assert found.arrived(delivery(0, 4, owner_epoch=9), now=0)


def test_nothing_is_left_of_a_broken_stream() -> None:
    taken = delivery(0, 4)
    found = receive_buffer(taken, delivery(5, 9))
    found.take()

    assert found.disconnected() == [taken]
    assert len(found) == 0


def test_a_gap_after_revoked_records_is_redelivered_with_them() -> None:
    found = receive_buffer(delivery(0, 4), gap(5, 9), delivery(10, 11))

    found.revoked(0, from_offset=2, revision=1)

    assert list(queued(found)) == [(0, 0, 1)]


def test_a_gap_before_what_is_revoked_stays() -> None:
    found = receive_buffer(gap(0, 4), delivery(5, 9))

    found.revoked(0, from_offset=5, revision=1)

    assert list(queued(found)) == [(0, 0, 4)]


def test_more_time_is_asked_for_every_third_of_the_deadline_while_the_user_is_at_work() -> None:
    found = receive_buffer(delivery(0, 4), delivery(0, 4, partition=1, owner_epoch=8))
    in_hand = found.take()

    asked = [(now, list(found.extensions_due(in_hand, deadline_s=30, now=now))) for now in range(0, 35, 5)]

    assert [now for now, due in asked if due] == [10, 20, 30]
    assert asked[2][1] == [(0, 7, []), (1, 8, [])]


def test_records_that_were_taken_and_left_lying_expire() -> None:
    worked_on = delivery(0, 4, partition=1, owner_epoch=8)
    found = receive_buffer(delivery(0, 4), delivery(5, 9), worked_on)
    found.take()

    assert list(found.extensions_due(worked_on, deadline_s=30, now=100)) == [(1, 8, [])]


def test_in_relaxed_order_redelivered_records_replace_those_that_are_queued() -> None:
    found = receive_buffer(
        delivery(0, 4, ordering=Ordering.RELAXED),
        delivery(5, 9, ordering=Ordering.RELAXED),
        delivery(0, 4, partition=1, owner_epoch=8, ordering=Ordering.RELAXED),
    )

    assert found.arrived(delivery(0, 6, revision=2, ordering=Ordering.RELAXED, resend=True), 1.0)

    assert list(queued(found)) == [(0, 5, 9), (1, 0, 4), (0, 0, 6)]


def test_in_relaxed_order_what_is_queued_and_what_is_in_hand_get_more_time_each_by_itself() -> None:
    lying, worked_on = delivery(0, 4, ordering=Ordering.RELAXED), delivery(5, 9, ordering=Ordering.RELAXED)
    found = receive_buffer(lying, worked_on, delivery(20, 24, ordering=Ordering.RELAXED))
    found.take()
    found.take()
    worked_on.settle([(6, 7)])

    assert list(found.extensions_due(worked_on, deadline_s=30, now=9)) == []
    assert list(found.extensions_due(worked_on, deadline_s=30, now=10)) == [(0, 7, [(5, 5), (8, 9), (20, 24)])]
    assert list(found.extensions_due(worked_on, deadline_s=30, now=19)) == []


def test_a_revocation_that_was_on_the_way_already_does_not_end_a_nack_below_it() -> None:
    first = delivery(0, 4)
    found = receive_buffer(first)
    found.take()
    found.nacked(first, 2)

    found.revoked(0, from_offset=4, revision=1)  # something else failed before the broker saw the nack

    assert not found.arrived(delivery(4, 9, revision=1), now=0)
    found.revoked(0, from_offset=2, revision=2)
    assert found.arrived(delivery(2, 9, revision=2), now=0)


def test_a_nack_below_a_revocation_voids_what_came_after_it() -> None:
    first = delivery(0, 9)
    found = receive_buffer(first)
    found.take()
    found.revoked(0, from_offset=5, revision=1)
    found.arrived(delivery(5, 9, revision=1), now=0)

    found.nacked(first, 3)

    assert list(queued(found)) == []


def test_a_nack_that_the_broker_did_not_take_is_forgotten() -> None:
    first = delivery(0, 4)
    found = receive_buffer(first)
    found.take()
    found.nacked(first, 2)

    found.nack_rejected(0, 7, 2)

    assert found.arrived(delivery(5, 9), now=0)


class Model:
    """A broker's STRICT partition, the wire in both directions, and what a target sees of it."""

    def __init__(self) -> None:
        self.found = receive_buffer()
        self.revision = 0
        self.sent = 0
        self.fails: list[tuple[int, int]] = []
        self.to_client: list[Any] = []
        self.to_broker: list[tuple[int, int]] = []
        self.at_most = 0

    def send(self, count: int) -> None:
        self.to_client.append(delivery(self.sent, self.sent + count - 1, revision=self.revision))
        self.sent += count

    def fail(self, offset: int) -> None:
        if offset < self.sent:
            self.revision += 1
            self.sent = offset
            self.fails.append((self.revision, offset))
            self.to_client.append((offset, self.revision))

    def judge(self) -> None:
        """The broker takes a nack, unless a later revision has taken the record back already."""
        if self.to_broker:
            offset, revision = self.to_broker.pop(0)
            if all(offset < from_offset for later, from_offset in self.fails if later > revision):
                self.fail(offset)

    def receive(self) -> None:
        if self.to_client:
            message = self.to_client.pop(0)
            if isinstance(message, InFlight):
                self.found.arrived(message, now=0)
            else:
                self.found.revoked(0, *message)

    def process(self, nack_at: int) -> None:
        one = self.found.take()
        for index, record in enumerate(() if one is None else of_user(one)):
            assert record.offset <= self.at_most, "seen before what must come before it"
            self.at_most = record.offset + 1
            if one is not None and index == nack_at:
                self.to_broker.append((record.offset, record.revision))
                self.found.nacked(one, record.offset)
                one.void(record.offset)
                self.at_most = record.offset

    def finish(self) -> None:
        self.settle_down()
        self.send(10)
        self.settle_down()

    def settle_down(self) -> None:
        while self.to_broker or self.to_client or len(self.found):
            self.judge()
            self.receive()
            self.process(nack_at=-1)


@pytest.mark.slow
@settings(max_examples=1000, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("send"), st.integers(1, 4)),
            st.tuples(st.just("receive"), st.just(0)),
            st.tuples(st.just("receive"), st.just(0)),
            st.tuples(st.just("process"), st.integers(0, 6)),
            st.tuples(st.just("judge"), st.just(0)),
            st.tuples(st.just("fail"), st.integers(0, 12)),
        ),
        max_size=60,
    )
)
def test_a_target_sees_every_record_again_from_the_one_that_it_nacked(history: list[tuple[str, int]]) -> None:
    model = Model()
    for op, number in history:
        match op:
            case "send" | "process" | "fail":
                getattr(model, op)(number)
            case _:
                getattr(model, op)()
    model.finish()

    # The last thing that was sent has been seen, after all others: the stream has not lost its place.
    assert model.at_most == model.sent


def test_records_settled_below_an_offset_are_neither_kept_nor_handed_out() -> None:
    found = receive_buffer(delivery(0, 9), delivery(10, 19), delivery(20, 29), delivery(30, 39))
    first, second = found.take(), found.take()

    ended = found.settled_until(0, 7, 24)

    assert ended == [first, second]
    assert [(one.first_offset, one.left) for one in (found.take(), found.take()) if one is not None] == [
        (20, [(25, 29)]),
        (30, [(30, 39)]),
    ]
    assert found.settled_until(0, 6, 99) == []


def test_an_offset_is_known_to_the_broker_when_a_record_at_it_or_above_has_come() -> None:
    found = receive_buffer(delivery(0, 9), delivery(10, 19))
    found.take()

    assert [found.has_arrived(0, offset) for offset in (9, 19, 20)] == [True, True, False]
    assert not found.has_arrived(1, 0)
