"""Delivery: order, acks, nacks, redelivery and credit, by stream and by pull."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from forebay.contract.check import Check
from forebay.contract.trial import Trial, values_of
from forebay.contract.violation import Violation, equal, that
from forebay.contract.wire import Stream, refused_for
from forebay.errors.reasons import Reason
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import record_pb2

RPC: Final = "BufferService.Deliver"
OK: Final = pb.SETTLE_OUTCOME_OK
BACKOFF: Final[dict[str, Any]] = {"retry_backoff_min": {"nanos": 1_000_000}, "retry_backoff_max": {"nanos": 1_000_000}}
"""Settings for a redelivery after 1 ms."""

CREDIT: Final = {"records": 1_000, "bytes": 64 << 20}


class Consumer:
    """A `Deliver` stream that is open."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._early: deque[pb.Delivery] = deque()
        """Deliveries that came before the results of an answer."""
        response = stream.receive()
        if not response.HasField("opened"):
            raise Violation("the first answer of Deliver is not `opened`")
        self.opened: pb.DeliverOpened = response.opened

    def delivery(self) -> tuple[pb.Delivery, list[tuple[int, bytes]]]:
        """Return the next delivery, with the offsets and values to process."""
        while not self._early:
            response = self._stream.receive()
            if response.HasField("delivery"):
                self._early.append(response.delivery)
        delivery = self._early.popleft()
        return delivery, _records(delivery)

    def has_early(self) -> bool:
        """Return whether a delivery came before the results of the last answer."""
        return bool(self._early)

    def take(self, count: int) -> tuple[pb.Delivery, list[tuple[int, bytes]]]:
        """Return the last of the deliveries with ``count`` records, and all of these."""
        found: list[tuple[int, bytes]] = []
        while True:
            delivery, records = self.delivery()
            found += records
            if len(found) >= count:
                return delivery, found

    def ack(self, delivery: pb.Delivery, first: int, last: int) -> set[int]:
        """Settle a range; return the outcomes of its parts."""
        self._stream.send(pb.DeliverRequest(ack=pb.AckRanges(**_answer(delivery, first, last))))
        return self._outcomes()

    def nack(self, delivery: pb.Delivery, first: int, last: int, **action: Any) -> set[int]:
        """Reject a range; return the outcomes of its parts."""
        self._stream.send(pb.DeliverRequest(nack=pb.NackRanges(**_answer(delivery, first, last), **action)))
        return self._outcomes()

    def close(self) -> None:
        """End the stream gracefully."""
        self._stream.send(pb.DeliverRequest(close=pb.DeliverClose()))
        self._stream.finish()

    def _outcomes(self) -> set[int]:
        while True:
            response = self._stream.receive()
            if response.HasField("delivery"):
                self._early.append(response.delivery)
            if response.HasField("results"):
                return {result.outcome for result in response.results.results}


@contextmanager
def consumer(trial: Trial, sink: str, name: str = "contract", **fields: Any) -> Iterator[Consumer]:
    """Open a consumer; at the end of the block its stream is cancelled."""
    opening = pb.DeliverOpen(**{"sink": sink, "consumer_id": name, "credit": CREDIT, **fields})
    with trial.wire.stream(RPC, pb.DeliverRequest(open=opening)) as stream:
        yield Consumer(stream)


def _answer(delivery: pb.Delivery, first: int, last: int) -> dict[str, Any]:
    return {
        "partition": delivery.partition,
        "owner_epoch": delivery.owner_epoch,
        "revision": delivery.revision,
        "ranges": [record_pb2.OffsetRange(first_offset=first, last_offset=last)],
    }


def _records(delivery: pb.Delivery) -> list[tuple[int, bytes]]:
    """Return offsets and values that a delivery asks to process."""
    wanted = {o for each in delivery.ranges for o in range(each.first_offset, each.last_offset + 1)}
    return [
        (offset, value)
        for page in delivery.pages
        for offset, value in enumerate(values_of(page.body), page.base_offset)
        if offset in wanted
    ]


def _in_order(trial: Trial) -> None:
    sink = trial.sinks.create(buffer_page_size=2)
    for value in (b"a", b"b", b"c"):
        trial.publish(sink, value)
    with consumer(trial, sink) as one:
        that(one.opened.incarnation, "`opened` names no incarnation")
        delivery, found = one.take(3)
        equal(found, [(0, b"a"), (1, b"b"), (2, b"c")], "the delivered records")
        equal(delivery.resend, False, "`resend` of a first delivery")
        equal(one.ack(delivery, 0, 2), {OK}, "the outcome of an ack")
        account = trial.account(sink)
        equal((account.acked, account.pending), (3, 0), "acked and pending records of the account")
        equal(one.ack(delivery, 0, 2), {pb.SETTLE_OUTCOME_ALREADY_SETTLED}, "the outcome of a second ack")
        one.close()


def _released(trial: Trial) -> None:
    sink = trial.sinks.create()
    trial.publish(sink, b"a")
    with consumer(trial, sink, "first") as one:
        one.take(1)
        one.close()
    with consumer(trial, sink, "second") as one:
        delivery, found = one.take(1)
        equal(found, [(0, b"a")], "the redelivered records")
        equal(delivery.resend, True, "`resend` of a redelivery")
        equal(len(delivery.attempts), 0, "the failed attempts after an orderly close")


def _vanished(trial: Trial) -> None:
    sink = trial.sinks.create(**BACKOFF)
    trial.publish(sink, b"a")
    with consumer(trial, sink, "first") as one:
        one.take(1)
    with consumer(trial, sink, "second") as one:
        delivery, found = one.take(1)
        equal(found, [(0, b"a")], "the redelivered records")
        equal([(each.offset, each.attempt) for each in delivery.attempts], [(0, 1)], "the failed attempts")


def _rejected(trial: Trial) -> None:
    sink = trial.sinks.create(**BACKOFF)
    trial.publish(sink, b"a", b"b", b"c")
    with consumer(trial, sink) as one:
        delivery, _ = one.take(3)
        equal(one.ack(delivery, 0, 0), {OK}, "the outcome of an ack")
        equal(one.nack(delivery, 1, 1, retry=pb.NackRetry(reason="contract")), {OK}, "the outcome of a nack")
        again, found = one.delivery()
        equal(found[:1], [(1, b"b")], "the first redelivered record")
        equal(again.resend, True, "`resend` of a redelivery")
        equal([(each.offset, each.attempt) for each in again.attempts], [(1, 1)], "the failed attempts")
        that(again.revision > delivery.revision, "a redelivery in strict order has the revision of the first delivery")
        equal(one.ack(delivery, 1, 1), {pb.SETTLE_OUTCOME_STALE}, "the outcome of an ack of the former revision")
        equal(one.ack(again, 1, 1), {OK}, "the outcome of an ack of the redelivery")
        if len(found) == 1:  # else the broker redelivered both together
            _, found = one.delivery()
        equal(found[-1], (2, b"c"), "the record after the rejected one")


def _credited(trial: Trial) -> None:
    sink = trial.sinks.create(buffer_page_size=1)
    for value in (b"a", b"b"):
        trial.publish(sink, value)
    with consumer(trial, sink, credit={"records": 1, "bytes": 1 << 20}) as one:
        delivery, found = one.delivery()
        equal(found, [(0, b"a")], "the first delivery with a credit of one record")
        # An answer that settles nothing frees no credit.
        equal(one.ack(delivery, 1, 1), {pb.SETTLE_OUTCOME_UNKNOWN}, "the outcome of an ack of what was not delivered")
        that(not one.has_early(), "more was delivered than the credit allows")
        one.ack(delivery, 0, 0)
        equal(one.delivery()[1], [(1, b"b")], "the delivery after the ack")


def _wrong_credit(trial: Trial) -> None:
    sink = trial.sinks.create()
    with (
        refused_for(Reason.INVALID_CREDIT, "a credit of 2^40 bytes"),
        consumer(trial, sink, credit={"records": 1, "bytes": 1 << 40}) as one,
    ):
        one.delivery()


def _replaced(trial: Trial) -> None:
    sink = trial.sinks.create()
    with (
        consumer(trial, sink, "same") as first,
        consumer(trial, sink, "same"),
        refused_for(Reason.CONSUMER_REPLACED, "the first of two streams of one consumer"),
    ):
        first.delivery()


def _unknown(trial: Trial) -> None:
    sink = trial.sinks.create(partitions=1)
    trial.publish(sink, b"a", b"b")
    record, _ = trial.pull(sink, 2)
    record.offset = 9
    equal(trial.ack(sink, record), [pb.SETTLE_OUTCOME_UNKNOWN], "the outcome of an ack of what was not delivered")


def _pulled(trial: Trial) -> None:
    sink = trial.sinks.create(**BACKOFF)
    trial.publish(sink, b"a", b"b")
    first, second = trial.pull(sink, 2)
    equal([one.record.value for one in (first, second)], [b"a", b"b"], "the pulled records")
    equal(trial.ack(sink, first), [OK], "the outcome of an ack")
    equal(trial.nack(sink, second), [OK], "the outcome of a nack")
    [again] = trial.pull(sink, 1)
    equal((again.offset, again.attempt, again.resend), (1, 1, True), "offset, attempt and `resend` of a redelivery")


def _overdue(trial: Trial) -> None:
    sink = trial.sinks.create(ack_deadline={"nanos": 100_000_000}, **BACKOFF)
    trial.publish(sink, b"a")
    trial.pull(sink, 1, consumer="first")
    [again] = trial.pull(sink, 1, consumer="second", wait_s=8)
    equal((again.offset, again.resend), (0, True), "offset and `resend` of a record whose deadline has passed")


CHECKS: Final = (
    Check("delivery", "records are delivered in order and settled by acks", _in_order),
    Check("delivery", "an orderly close releases records without a failed attempt", _released),
    Check("delivery", "the end of a stream is a failed attempt", _vanished),
    Check("delivery", "a nack redelivers the record and those after it", _rejected),
    Check("delivery", "credit bounds what is in flight", _credited),
    Check("delivery", "a credit out of bounds: INVALID_CREDIT", _wrong_credit),
    Check("delivery", "a second stream of a consumer ends the first: CONSUMER_REPLACED", _replaced),
    Check("delivery", "an ack of what was not delivered settles nothing", _unknown),
    Check("delivery", "Pull, Ack and Nack work as a stream does", _pulled),
    Check("delivery", "a record without an answer is redelivered after the ack deadline", _overdue),
)
