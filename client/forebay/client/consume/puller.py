"""Unary calls of the data path: pull, ack, nack and peek without a stream."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from forebay.client.consume.answers import Answer, AnswerKind
from forebay.client.errors import SinkReplaced
from forebay.client.telemetry import Telemetry
from forebay.client.transport.channel import Channels
from forebay.client.transport.service import Service
from forebay.client.values import convert
from forebay.client.values.convert import duration
from forebay.client.values.ranges import count, merge
from forebay.client.values.records import DeliveredRecord, PeekedRecord, SettleResult
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1.buffer_service_pb2_grpc import BufferServiceStub

Pulled = DeliveredRecord | Iterable[DeliveredRecord]
"""Pulled records, or one of them, which is a tuple itself."""


class PullClient:
    """Unary calls of the data path. Thread-safe."""

    def __init__(self, channels: Channels) -> None:
        self._service = Service(channels, BufferServiceStub)

    def pull(
        self, sink: str, *, subscription: str, consumer_id: str, max_records: int, wait_s: float, incarnation: str
    ) -> list[DeliveredRecord]:
        """Pull records; not retried after a lost answer, because its records stay in flight."""
        request = pb.PullRequest(
            sink=sink,
            subscription=subscription,
            consumer_id=consumer_id,
            max_records=max_records,
            wait=duration(wait_s),
            incarnation=incarnation,
        )
        response = self._service.call("Pull", sink, request, extra_s=wait_s)
        Telemetry(sink, subscription).read("pull", len(response.records))
        return [convert.delivered_record(record, response.incarnation) for record in response.records]

    def ack(self, sink: str, records: Pulled, *, subscription: str) -> list[SettleResult]:
        """Settle pulled records."""
        return self._settle(sink, records, AnswerKind.ACK, subscription)

    def nack(
        self,
        sink: str,
        records: Pulled,
        *,
        subscription: str,
        delay_s: float | None,
        reason: str,
    ) -> list[SettleResult]:
        """Reject pulled records for redelivery."""
        return self._settle(sink, records, AnswerKind.NACK, subscription, delay_s, reason)

    def _settle(
        self,
        sink: str,
        records: Pulled,
        kind: AnswerKind,
        subscription: str,
        delay_s: float | None = None,
        reason: str = "",
    ) -> list[SettleResult]:
        pulled = (records,) if isinstance(records, DeliveredRecord) else tuple(records)
        answers = _answers(pulled, kind, delay_s, reason)
        if not answers:
            return []
        messages = [answer.message() for answer in answers]
        rpc, request = (
            ("Ack", pb.AckRequest(acks=[message.ack for message in messages]))
            if kind is AnswerKind.ACK
            else ("Nack", pb.NackRequest(nacks=[message.nack for message in messages]))
        )
        request.sink, request.subscription, request.incarnation = sink, subscription, _incarnation(pulled)
        with Telemetry(sink, subscription).settling(kind, *_partition_and_count(answers)):
            response = self._service.call(rpc, sink, request)
        return [convert.settle_result(result) for result in response.results]

    def offset_at(self, sink: str, time: datetime, *, partition: int, incarnation: str) -> int:
        """Return the offset of a time: a replay reports its start offset, and is then cancelled."""
        moment = time if time.tzinfo is not None else time.astimezone()
        request = pb.ReplayRequest(
            sink=sink, partition=partition, start_time=convert.stamp(moment), incarnation=incarnation
        )

        def attempt(timeout_s: float) -> int:
            call = self._service.stub(sink).Replay(request, timeout=timeout_s)
            try:
                return int(next(call).opened.start_offset)
            finally:
                call.cancel()

        return self._service.unary.call("Replay", attempt)[0]

    def peek(
        self, sink: str, *, partition: int, offset: int | None, max_records: int, incarnation: str
    ) -> list[PeekedRecord]:
        """Peek at a few records."""
        request = pb.PeekRequest(
            sink=sink, partition=partition, offset=offset, max_records=max_records, incarnation=incarnation
        )
        response = self._service.call("Peek", sink, request)
        return [convert.value(PeekedRecord, record) for record in response.records]


def _answers(records: Iterable[DeliveredRecord], kind: AnswerKind, delay_s: float | None, reason: str) -> list[Answer]:
    """Return one answer per partition, owner epoch and revision."""
    groups: dict[tuple[int, int, int], list[int]] = {}
    for record in records:
        groups.setdefault((record.partition, record.owner_epoch, record.revision), []).append(record.offset)
    return [
        Answer(kind, *group, merge((offset, offset) for offset in offsets), delay_s, reason)
        for group, offsets in groups.items()
    ]


def _incarnation(records: Sequence[DeliveredRecord]) -> str:
    """Return the incarnation of pulled records; raises ``SinkReplaced`` if there are several."""
    found = list(dict.fromkeys(record.incarnation for record in records))
    if len(found) > 1:
        raise SinkReplaced(
            f"the records were pulled from two incarnations of the sink, {found[0]!r} and {found[1]!r}: settle "
            "the records of each incarnation in a separate call",
            facts={"named": found[0], "current": found[1]},
        )
    return found[0]


def _partition_and_count(answers: Sequence[Answer]) -> tuple[int | None, int]:
    """Return the partition, if there is only one, and the number of records of the answers."""
    partitions = {answer.partition for answer in answers}
    return partitions.pop() if len(partitions) == 1 else None, sum(count(answer.ranges) for answer in answers)
