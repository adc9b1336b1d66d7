"""The subscriber over a real connection, to a broker that a test scripts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from queue import Empty, Queue
from typing import Any

import grpc
import pytest

from forebay.client import (
    BrokerUnavailable,
    Client,
    ClientFault,
    DeadlineExceeded,
    DropReason,
    PageCorrupt,
    SettleOutcome,
    SettleResult,
    Subscriber,
    SubscriptionNotFound,
)
from forebay.client.consume import core as subscribing
from forebay.client.consume.answers import RANGES_MAX
from forebay.client.consume.stream import DAMAGED_MAX
from forebay.client.errors import Superseded
from forebay.client.publish.pages import encode_columns
from forebay.client.transport.forks import PROCESS
from forebay.errors.reasons import Reason
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import record_pb2
from tests.support.calls.wire_fake import QUICK, WireFake, abort, status
from tests.support.refusals import failure

END = object()
OK = pb.SETTLE_OUTCOME_OK


def stored(first: int, count: int, **fields: Any) -> record_pb2.StoredPage:
    page = encode_columns([b"%d" % offset for offset in range(first, first + count)])
    part = record_pb2.PagePart(first_offset=first, traceparent=fields.pop("traceparent", ""))
    part.accepted_at.FromDatetime(datetime(2026, 1, 1))  # noqa: DTZ001 - protobuf wants UTC without saying so
    crc = fields.pop("crc32", page.crc32)
    return record_pb2.StoredPage(
        base_offset=first,
        record_count=count,
        encoding=record_pb2.ENCODING_RECORDS,
        crc32=crc,
        body=page.body,
        parts=[part],
    )


def delivery(*pages: record_pb2.StoredPage, **fields: Any) -> pb.DeliverResponse:
    ranges = fields.pop("ranges", None) or [
        (page.base_offset, page.base_offset + page.record_count - 1) for page in pages
    ]
    owner_epoch = fields.pop("owner_epoch", 7)
    message = pb.Delivery(owner_epoch=owner_epoch, pages=pages, durability=record_pb2.DURABILITY_DISK, **fields)
    message.ranges.extend(record_pb2.OffsetRange(first_offset=first, last_offset=last) for first, last in ranges)
    return pb.DeliverResponse(delivery=message)


def revoked(from_offset: int, revision: int) -> pb.DeliverResponse:
    return pb.DeliverResponse(revoked=pb.Revoked(from_offset=from_offset, revision=revision))


class Script:
    """Sends what the test says and keeps what the client said. Acks and nacks are answered OK by themselves."""

    def __init__(self, ack_deadline_s: float = 30) -> None:
        self.to_client: Queue[Any] = Queue()
        self.opens: list[pb.DeliverOpen] = []
        self.said: list[pb.DeliverRequest] = []
        self.ack_deadline_s = ack_deadline_s
        self.answers_itself = True
        self.deaf = False
        """It does not end a stream that the client has ended."""
        self.goodbyes = 0
        """Streams that the client ended gracefully."""

    def serve(self, requests: Iterator[pb.DeliverRequest], context: grpc.ServicerContext) -> Iterator[Any]:
        outgoing = self.to_client
        self.opens.append(next(requests).open)
        opened = pb.DeliverOpened(incarnation="inc", partitions=2)
        opened.ack_deadline.FromNanoseconds(int(self.ack_deadline_s * 1e9))
        owned = pb.AssignedPartition(partition=0, owner_epoch=6 + len(self.opens))
        yield pb.DeliverResponse(opened=opened)
        yield pb.DeliverResponse(assignment=pb.Assignment(partitions=[owned]))
        gone, said_goodbye = threading.Event(), threading.Event()
        context.add_callback(gone.set)

        def listen() -> None:
            try:
                for request in requests:
                    self.said.append(request)
                    kind = request.WhichOneof("request")
                    if self.answers_itself and kind in {"ack", "nack"}:
                        results = [pb.SettleResult(range=one, outcome=OK) for one in getattr(request, kind).ranges]
                        outgoing.put(pb.DeliverResponse(results=pb.Results(results=results)))
            except grpc.RpcError:
                return  # the call has ended
            said_goodbye.set()

        threading.Thread(target=listen).start()  # ends with the call
        while not gone.is_set():
            try:
                message = outgoing.get(timeout=0.01)
            except Empty:
                if said_goodbye.is_set() and not self.deaf:
                    self.goodbyes += 1
                    return
                continue
            if message is END:
                context.abort(grpc.StatusCode.UNAVAILABLE, "the connection broke")
            if not isinstance(message, pb.DeliverResponse):
                abort(context, message)
            yield message

    def send(self, *messages: Any) -> None:
        for message in messages:
            self.to_client.put(message)

    def heard(self, kind: str) -> list[Any]:
        return [getattr(request, kind) for request in self.said if request.WhichOneof("request") == kind]


def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.002)


def spans(ranges: Any) -> list[tuple[int, int]]:
    return [(one.first_offset, one.last_offset) for one in ranges]


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def fake(script: Script) -> Iterator[WireFake]:
    with WireFake(Deliver=script.serve) as running:
        yield running


def test_a_delivery_gives_records_with_all_that_they_have(fake: WireFake, script: Script) -> None:
    pages = (stored(0, 2), stored(2, 3))
    script.send(delivery(*pages, ranges=[(1, 1), (3, 4)], attempts=[pb.Attempt(offset=3, attempt=2)], resend=True))
    with fake.client() as client, client.subscriber("s", consumer_id="me", credit_records=9) as subscriber:
        one = next(subscriber)

        records = list(one)
        assert [(record.offset, record.value, record.attempt) for record in records] == [
            (1, b"1", 0),
            (3, b"3", 2),
            (4, b"4", 0),
        ]
        assert all(record.resend and record.accepted_at == datetime(2026, 1, 1, tzinfo=UTC) for record in records)
        assert (one.first_offset, one.last_offset, len(one), one.incarnation) == (1, 4, 3, "inc")
        assert one.values() == [b"1", b"3", b"4"]

    (opening,) = script.opens
    assert (opening.sink, opening.subscription, opening.consumer_id) == ("s", "default", "me")
    assert opening.credit.records == 9


def test_an_ack_names_what_it_settles(fake: WireFake, script: Script) -> None:
    script.send(delivery(stored(0, 2), stored(2, 3), ranges=[(0, 1), (3, 4)], revision=5))
    with fake.client() as client, client.subscriber("s") as subscriber:
        results = next(subscriber).ack(wait=True)

    (ack,) = script.heard("ack")
    assert (ack.partition, ack.owner_epoch, ack.revision, spans(ack.ranges)) == (0, 7, 5, [(0, 1), (3, 4)])
    assert [(one.first_offset, one.last_offset, one.outcome) for one in results] == [
        (0, 1, SettleOutcome.OK),
        (3, 4, SettleOutcome.OK),
    ]


def test_records_can_be_acked_one_by_one_and_again(fake: WireFake, script: Script) -> None:
    script.send(delivery(stored(0, 3)))
    with fake.client() as client, client.subscriber("s") as subscriber:
        one = next(subscriber)
        one.ack(0)
        one.ack(2)
        one.ack()
        again = one.ack(wait=True)

    settled = sorted(span for ack in script.heard("ack") for span in spans(ack.ranges))
    assert {offset for first, last in settled for offset in range(first, last + 1)} == {0, 1, 2}
    assert [result.outcome for result in again] == [SettleOutcome.ALREADY_SETTLED]


def test_ack_until_reaches_beyond_the_delivery(fake: WireFake, script: Script) -> None:
    script.send(delivery(stored(5, 3)))
    with fake.client() as client, client.subscriber("s") as subscriber:
        next(subscriber).ack_until(99, wait=True)

    (ack,) = script.heard("ack")
    assert (ack.until, spans(ack.ranges)) == (True, [(5, 99)])


def test_after_a_nack_the_next_delivery_is_the_one_that_is_redelivered(fake: WireFake, script: Script) -> None:
    script.send(*(delivery(stored(10 * number, 10)) for number in range(10)))
    seen = []
    with fake.client() as client, client.subscriber("s") as subscriber:
        for one in subscriber:
            for record in one:
                seen.append(record.offset)
                if record.offset == 23 and seen.count(23) == 1:
                    one.nack_from(23, delay_s=0, reason="not now", wait=True)
                    script.send(revoked(23, 1), delivery(stored(20, 80), ranges=[(23, 99)], revision=1))
            if seen[-1] == 99:
                one.ack(wait=True)
                break

    assert seen == [*range(24), *range(23, 100)]
    (nack,) = script.heard("nack")
    assert spans(nack.ranges) == [(23, 29)]
    assert nack.retry.reason == "not now"


def test_a_late_answer_to_what_was_revoked_is_stale_and_is_not_sent(fake: WireFake, script: Script) -> None:
    script.send(delivery(stored(0, 10)))
    with fake.client() as client, client.subscriber("s") as subscriber:
        one = next(subscriber)
        script.send(revoked(4, 1), delivery(stored(0, 10), ranges=[(4, 9)], revision=1, resend=True))
        again = next(subscriber)

        late = one.ack(4, 9, wait=True)
        below = one.ack(0, 3, wait=True)

        assert [result.outcome for result in late] == [SettleOutcome.STALE]
        assert [result.outcome for result in below] == [SettleOutcome.OK]
        assert [record.offset for record in one] == [0, 1, 2, 3]
        assert [record.offset for record in again] == [4, 5, 6, 7, 8, 9]

    (ack,) = script.heard("ack")
    assert (ack.revision, spans(ack.ranges)) == (0, [(0, 3)])


def test_acks_below_a_nack_count(fake: WireFake, script: Script) -> None:
    script.send(delivery(stored(0, 100)))
    with fake.client() as client, client.subscriber("s") as subscriber:
        one = next(subscriber)
        one.nack_from(60)
        one.ack(0, 59, wait=True)

    assert [spans(nack.ranges) for nack in script.heard("nack")] == [[(60, 99)]]
    assert [spans(ack.ranges) for ack in script.heard("ack")] == [[(0, 59)]]


def test_a_dead_letter_is_for_exactly_one_record_and_the_rest_is_processed(fake: WireFake, script: Script) -> None:
    script.send(delivery(stored(0, 5)))
    with fake.client() as client, client.subscriber("s") as subscriber:
        one = next(subscriber)
        one.ack(0, 1)
        one.dead_letter("the target said no", offset=2, wait=True)

        assert [record.offset for record in one] == [0, 1, 2, 3, 4]

    (nack,) = script.heard("nack")
    assert (spans(nack.ranges), nack.dead_letter.reason) == ([(2, 2)], "the target said no")


def test_a_drop_is_for_exactly_one_record_and_the_rest_is_processed(fake: WireFake, script: Script) -> None:
    script.send(delivery(stored(0, 5)))
    with fake.client() as client, client.subscriber("s") as subscriber:
        one = next(subscriber)
        one.drop("the target said no", offset=2, wait=True)
        one.ack(wait=True)

        assert [record.offset for record in one] == [0, 1, 2, 3, 4]

    (nack,) = script.heard("nack")
    (ack,) = script.heard("ack")
    assert (spans(nack.ranges), nack.drop.reason) == ([(2, 2)], "the target said no")
    assert spans(ack.ranges) == [(0, 1), (3, 4)]


def test_a_drop_without_an_offset_is_for_all_that_is_not_settled(fake: WireFake, script: Script) -> None:
    script.send(delivery(stored(0, 5)))
    with fake.client() as client, client.subscriber("s") as subscriber:
        one = next(subscriber)
        one.ack(0, 1)
        one.drop("not for us", wait=True)

    (nack,) = script.heard("nack")
    assert spans(nack.ranges) == [(2, 4)]


def test_slow_work_asks_for_more_time_and_nothing_else() -> None:
    script = Script(ack_deadline_s=0.3)
    script.send(delivery(stored(0, 10)), delivery(stored(10, 10)))
    with WireFake(Deliver=script.serve) as fake, fake.client() as client, client.subscriber("s") as subscriber:
        one = next(subscriber)
        for each in (one, next(subscriber)):
            for _ in each:
                time.sleep(0.03)
        one.ack_until(19, wait=True)

    extends = script.heard("extend")
    assert 3 <= len(extends) <= 7
    assert {(extend.partition, extend.owner_epoch) for extend in extends} == {(0, 7)}


def test_an_ack_of_more_ranges_than_a_message_may_have_is_several_messages(fake: WireFake, script: Script) -> None:
    script.send(delivery(stored(0, 2 * RANGES_MAX + 3)))
    with fake.client() as client, client.subscriber("s") as subscriber:
        one = next(subscriber)
        for offset in range(0, 2 * RANGES_MAX + 3, 2):
            one.ack(offset)
        results = one.ack(wait=True)

    acks = script.heard("ack")
    assert max(len(ack.ranges) for ack in acks) <= RANGES_MAX
    assert {span for ack in acks for span in spans(ack.ranges)} >= {(1, 1), (2 * RANGES_MAX + 1, 2 * RANGES_MAX + 1)}
    assert len(results) == RANGES_MAX + 1
    assert {result.outcome for result in results} == {SettleOutcome.OK}


def test_a_gap_is_a_delivery_without_records_in_its_place(fake: WireFake, script: Script) -> None:
    gap = record_pb2.Gap(first_offset=0, last_offset=9, reason=record_pb2.DROP_REASON_OVERFLOW)
    script.send(pb.DeliverResponse(gap=gap), delivery(stored(10, 2)))
    with fake.client() as client, client.subscriber("s") as subscriber:
        one, two = next(subscriber), next(subscriber)

        assert one.gap is not None
        assert (one.gap.first_offset, one.gap.last_offset, one.gap.reason) == (0, 9, DropReason.OVERFLOW)
        assert (len(one), list(one), one.values()) == (0, [], [])
        assert (one.ack(wait=True), one.nack(), one.ack_until(3)) == ([], [], [])
        assert two.gap is None


def test_after_a_broken_stream_it_reconnects_and_old_deliveries_are_stale(fake: WireFake, script: Script) -> None:
    script.send(delivery(stored(0, 3)))
    with fake.client() as client, client.subscriber("s") as subscriber:
        old = next(subscriber)
        script.send(END)
        until(lambda: len(script.opens) == 2)
        script.send(delivery(stored(0, 3), owner_epoch=8, resend=True))
        new = next(subscriber)

        assert old.stale
        assert not new.stale
        assert list(old) == []
        assert [result.outcome for result in old.ack(wait=True)] == [SettleOutcome.STALE]
        assert [result.outcome for result in new.ack(wait=True)] == [SettleOutcome.OK]

    assert [ack.owner_epoch for ack in script.heard("ack")] == [8]
    assert script.opens[0].consumer_id == script.opens[1].consumer_id


def test_an_ack_without_an_answer_is_stale_when_the_stream_breaks(fake: WireFake, script: Script) -> None:
    script.answers_itself = False
    script.send(delivery(stored(0, 3)))
    with fake.client() as client, client.subscriber("s") as subscriber:
        one = next(subscriber)
        threading.Timer(0.05, lambda: script.send(END)).start()

        assert [result.outcome for result in one.ack(wait=True)] == [SettleOutcome.STALE]


def test_without_reconnect_the_iteration_raises_what_broke_it(fake: WireFake, script: Script) -> None:
    script.send(delivery(stored(0, 3)), END)
    with (
        fake.client() as client,
        client.subscriber("s", reconnect=False) as subscriber,
        pytest.raises(BrokerUnavailable, match="the connection broke"),
    ):
        list(subscriber)


def test_a_page_damaged_on_the_way_is_asked_for_again(fake: WireFake, script: Script) -> None:
    script.send(delivery(stored(0, 3, crc32=1)))
    with fake.client() as client, client.subscriber("s") as subscriber:
        assert subscriber.take(0.2) is None
        until(lambda: len(script.opens) >= 2)
        script.send(delivery(stored(0, 3), owner_epoch=6 + len(script.opens)))

        assert next(subscriber).values() == [b"0", b"1", b"2"]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (status(grpc.StatusCode.ABORTED, "CONSUMER_REPLACED"), Superseded),
        (status(grpc.StatusCode.NOT_FOUND, "SUBSCRIPTION_NOT_FOUND"), SubscriptionNotFound),
    ],
)
def test_a_permanent_error_ends_the_iteration(
    fake: WireFake, script: Script, found: Any, expected: type[Exception]
) -> None:
    script.send(found)
    with fake.client() as client, client.subscriber("s") as subscriber:
        for _ in range(2):
            with pytest.raises(expected):
                next(subscriber)
    assert len(script.opens) == 1


def test_closing_from_another_thread_ends_the_iteration(fake: WireFake, script: Script) -> None:
    script.send(delivery(stored(0, 3)))
    with fake.client() as client:
        subscriber = client.subscriber("s")
        seen = []
        for one in subscriber:
            seen.append(one.last_offset)
            threading.Timer(0.1, subscriber.close).start()

        assert seen == [2]
        until(lambda: not any(thread.name.startswith("forebay-sub") for thread in threading.enumerate()))
        with failure(Reason.SUBSCRIBER_CLOSED):
            subscriber.set_credit(records=1, bytes_=1)


def test_closing_waits_for_the_results_of_what_was_acked(fake: WireFake, script: Script) -> None:
    script.send(delivery(stored(0, 3)))
    with fake.client() as client, client.subscriber("s") as subscriber:
        next(subscriber).ack()

    assert [spans(ack.ranges) for ack in script.heard("ack")] == [[(0, 2)]]


def test_closing_without_having_begun_is_fine(fake: WireFake, script: Script) -> None:
    with fake.client() as client:
        subscriber = client.subscriber("s")
        subscriber.close()
        subscriber.close()

        assert subscriber.take(0) is None
    assert script.opens == []


def test_closing_the_client_closes_its_subscribers(fake: WireFake, script: Script) -> None:
    client = fake.client()
    subscriber = client.subscriber("s")
    assert subscriber.take(0.05) is None

    client.close()

    assert list(subscriber) == []


def test_credit_can_be_changed_and_is_kept(fake: WireFake, script: Script) -> None:
    with fake.client() as client, client.subscriber("s") as subscriber:
        subscriber.take(0.1)
        subscriber.set_credit(records=5, bytes_=100)
        until(lambda: len(script.heard("credit")) == 1)
        script.send(END)
        until(lambda: len(script.opens) == 2)

    assert (script.opens[1].credit.records, script.opens[1].credit.bytes) == (5, 100)


def test_offsets_outside_of_the_delivery_are_refused(fake: WireFake, script: Script) -> None:
    script.send(delivery(stored(5, 3)))
    with fake.client() as client, client.subscriber("s") as subscriber:
        one = next(subscriber)

        for wrong in ((4, 5), (7, 8), (7, 6)):
            with failure(Reason.INVALID_RANGE):
                one.ack(*wrong)
        with failure(Reason.INVALID_NACK):
            one.nack(delay_s=-1)


def test_a_subscriber_is_not_used_across_fork(fake: WireFake, monkeypatch: pytest.MonkeyPatch) -> None:
    with fake.client() as client, client.subscriber("s") as subscriber, monkeypatch.context() as patch:
        patch.setattr(PROCESS, "forks", PROCESS.forks + 1)
        with failure(Reason.USED_AFTER_FORK):
            next(subscriber)
        subscriber.close()


@pytest.mark.parametrize("name", ["credit_records", "credit_bytes"])
def test_a_credit_that_cannot_work_is_refused(fake: WireFake, name: str) -> None:
    with fake.client() as client, failure(Reason.INVALID_SETTING, match=f"{name} = 0"):
        client.subscriber("s", **{name: 0})  # type: ignore[arg-type]


@pytest.mark.parametrize("endpoint", ["127.0.0.1:99999", "a..b:7461"])
def test_a_place_that_cannot_be_is_refused_before_anything_connects(endpoint: str) -> None:
    with failure(Reason.INVALID_SETTING, match="endpoint = "):
        Client(endpoint, settings=QUICK)


def test_an_unexpected_error_is_raised_to_every_waiting_caller(fake: WireFake, script: Script) -> None:
    gap = record_pb2.Gap(partition=0, first_offset=0, last_offset=1)
    gap.at.seconds = 10**15  # no such date
    script.send(pb.DeliverResponse(gap=gap))
    with fake.client() as client, client.subscriber("s") as subscriber:
        with pytest.raises(ClientFault):
            subscriber.take(10)
        with pytest.raises(ClientFault):
            next(subscriber)


def test_a_page_that_is_damaged_again_and_again_ends_the_iteration(fake: WireFake, script: Script) -> None:
    with fake.client() as client, client.subscriber("s") as subscriber:
        until(lambda: damaged(script, subscriber))

    assert len(script.opens) == DAMAGED_MAX


def test_a_page_that_is_always_damaged_ends_the_iteration_though_others_arrive(fake: WireFake, script: Script) -> None:
    with fake.client() as client, client.subscriber("s") as subscriber:

        def is_over() -> bool:
            good = delivery(stored(0, 1), partition=1)
            script.send(good, delivery(stored(7, 3, crc32=1)))
            try:
                return subscriber.take(0.05) is None and False
            except PageCorrupt:
                return True

        until(is_over)

    assert len(script.opens) == DAMAGED_MAX


def damaged(script: Script, subscriber: Subscriber) -> bool:
    """Send a damaged page to the stream that is open; return whether that was one too many."""
    script.send(delivery(stored(0, 3, crc32=1)))
    try:
        return subscriber.take(0.05) is not None
    except PageCorrupt:
        return True


def test_an_answer_that_the_broker_never_gives_is_not_waited_for_without_end(fake: WireFake, script: Script) -> None:
    script.answers_itself = False
    script.send(delivery(stored(0, 3)))
    with fake.client(replace(QUICK, call_timeout_s=0.1)) as client, client.subscriber("s") as subscriber:
        one = next(subscriber)
        with pytest.raises(DeadlineExceeded):
            one.ack(wait=True)
        script.send(pb.DeliverResponse(results=pb.Results()))


@pytest.mark.parametrize("last", [1, 2])
def test_a_call_that_was_not_answered_in_time_waits_for_the_same_answer_when_it_is_repeated(
    fake: WireFake, script: Script, last: int
) -> None:
    script.answers_itself = False
    script.send(delivery(stored(0, 3)))
    result = pb.SettleResult(range=record_pb2.OffsetRange(first_offset=1, last_offset=last), outcome=OK)
    with fake.client(replace(QUICK, call_timeout_s=0.1)) as client, client.subscriber("s") as subscriber:
        one = next(subscriber)
        for _ in range(2):
            with pytest.raises(DeadlineExceeded):
                one.dead_letter("no", offset=1, last=last, wait=True)
        with pytest.raises(DeadlineExceeded, match="ack of partition 0"):  # another answer, about another record
            one.ack(0, wait=True)
        script.send(pb.DeliverResponse(results=pb.Results(results=[result])))
        found: list[SettleResult] = []

        def is_answered() -> bool:
            with suppress(DeadlineExceeded):
                found.extend(one.dead_letter("no", offset=1, last=last, wait=True))
            return bool(found)

        until(is_answered)
        script.send(pb.DeliverResponse(results=pb.Results()))

    assert len(script.heard("nack")) == 1
    assert [(each.first_offset, each.last_offset, each.outcome) for each in found] == [(1, last, SettleOutcome.OK)]


def test_closing_says_goodbye_after_what_was_acked(fake: WireFake, script: Script) -> None:
    script.send(delivery(stored(0, 3)), delivery(stored(3, 3)))
    with fake.client() as client:
        subscriber = client.subscriber("s")
        next(subscriber).ack()
        next(subscriber)
        subscriber.close()
        until(lambda: script.goodbyes == 1)

    assert [spans(ack.ranges) for ack in script.heard("ack")] == [[(0, 2)]]


def test_a_block_that_ends_by_an_error_says_goodbye_too(fake: WireFake, script: Script) -> None:
    script.send(delivery(stored(0, 3)))
    with fake.client() as client:
        subscriber = client.subscriber("s")
        with suppress(RuntimeError), subscriber:
            next(subscriber)
            raise RuntimeError
    until(lambda: script.goodbyes == 1)


@pytest.mark.slow
def test_closing_does_not_wait_for_a_broker_that_does_not_answer(
    fake: WireFake, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscribing, "GOODBYE_S", 0.2)
    with fake.client() as client:
        subscriber = client.subscriber("s")
        assert subscriber.take(0.1) is None
        script.deaf = True
        begun = time.monotonic()
        subscriber.close()

        assert time.monotonic() - begun < subscribing.GOODBYE_S + 2
        assert not [thread for thread in threading.enumerate() if thread.name == "forebay-subscriber-s"]
