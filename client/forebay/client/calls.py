"""Unary calls of a client: publish, pull, ack, nack and peek without a stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from datetime import datetime
from typing import Final

from forebay.client.consume.answers import Answer, AnswerKind
from forebay.client.errors import SinkReplaced
from forebay.client.settings import RetryPolicy
from forebay.client.telemetry import Telemetry
from forebay.client.transport.channel import Channels
from forebay.client.transport.operations import Blocking, operation, stream
from forebay.client.transport.service import Service
from forebay.client.values import convert
from forebay.client.values.brokers import BrokerInfo
from forebay.client.values.connections import Connection
from forebay.client.values.convert import duration
from forebay.client.values.ranges import count, merge
from forebay.client.values.records import DeliveredRecord, PeekedRecord, Receipt, Record, SettleResult
from forebay.v1 import admin_service_pb2
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1.admin_service_pb2_grpc import AdminServiceStub
from forebay.v1.buffer_service_pb2_grpc import BufferServiceStub

Pulled = DeliveredRecord | Iterable[DeliveredRecord]
"""Pulled records, or one of them, which is a tuple itself."""

CONNECTIONS: Final = 1_000
"""Connections of one answer of the broker."""


class ClientCalls:
    """Unary calls of a client."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._service = Service(channels, BufferServiceStub)
        self._admin = Service(channels, AdminServiceStub)

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Endpoints of the brokers, with their ports; of a fleet its owners, after the first call."""
        return self._channels.endpoints

    @property
    def is_fleet(self) -> bool:
        """True if the address names members of a fleet."""
        return self._channels.fleet is not None

    def endpoint_of(self, sink: str) -> str:
        """Return the endpoint of the broker that holds ``sink``; of a fleet as far as it is known."""
        return self._channels.endpoint_of(sink)

    @operation
    async def info(self, endpoint: str | None = None, *, timeout_s: float | None = None) -> BrokerInfo:
        """Return version, state and limits of a broker; of the first endpoint if ``endpoint`` is not given.

        ``timeout_s`` replaces the time limit of the call and its retry policy: a broker that is not reached is tried
        until then.
        """
        request = admin_service_pb2.GetBrokerInfoRequest()
        policy = None if timeout_s is None else RetryPolicy(tries_max=None, delay_max_s=0.25, budget_s=timeout_s)
        chosen = endpoint or (await self._channels.brokers())[0]
        response = await self._admin.call(
            "GetBrokerInfo", "", request, endpoint=chosen, policy=policy, timeout_s=timeout_s
        )
        return convert.value(BrokerInfo, response, repairs=tuple(response.mended))

    @stream
    async def connections(self, endpoint: str | None = None) -> AsyncGenerator[Connection, None]:
        """Yield the connections of a broker by peer; of the first endpoint if ``endpoint`` is not given."""
        request = admin_service_pb2.ListConnectionsRequest(page_size=CONNECTIONS)
        chosen = endpoint or (await self._channels.brokers())[0]
        async for page in self._admin.pages("ListConnections", "", request, endpoint=chosen):
            for one in page.connections:
                yield convert.value(Connection, one)

    @operation
    async def publish(
        self,
        sink: str,
        records: Sequence[Record],
        *,
        partition: int | None = None,
        retry_maybe_sent: bool = False,
        incarnation: str = "",
    ) -> list[Receipt]:
        """Append a few records in one call; returns one durable receipt per partition and page.

        At least once. If the connection breaks during the call, the outcome is unknown. The call is then retried only
        with ``retry_maybe_sent``, which may append the records twice; otherwise it raises.
        """
        request = pb.PublishBatchRequest(
            sink=sink,
            records=[convert.record_message(record) for record in records],
            partition=partition,
            incarnation=incarnation,
        )

        with Telemetry(sink, server=self._service.server_of(sink)).sending(partition, len(records)) as span:
            response = await self._service.call(
                "PublishBatch", sink, request, metadata=span.metadata, is_idempotent=retry_maybe_sent
            )
        return [convert.receipt(receipt) for receipt in response.receipts]

    @operation
    async def offset_at(self, sink: str, time: datetime, *, partition: int, incarnation: str = "") -> int:
        """Return the offset of the first stored record of a partition accepted at ``time`` or later.

        If there is none, returns the offset of the next record. A time without a zone is local. Raises
        ``SinkNotFound``, ``INVALID_PARTITION``.
        """
        moment = time if time.tzinfo is not None else time.astimezone()
        request = pb.ReplayRequest(
            sink=sink, partition=partition, start_time=convert.stamp(moment), incarnation=incarnation
        )

        async def attempt(endpoint: str, timeout_s: float) -> int:
            method = self._channels.stub_at(BufferServiceStub, endpoint).Replay
            call = self._channels.io.read(method, request, timeout_s=timeout_s)
            try:
                return int((await anext(call)).opened.start_offset)
            finally:
                call.cancel()

        return (await self._service.unary.call("Replay", attempt, sink=sink))[0]

    @operation
    async def pull(
        self,
        sink: str,
        *,
        subscription: str = "default",
        consumer_id: str = "pull",
        max_records: int = 100,
        wait_s: float = 0.0,
        incarnation: str = "",
    ) -> list[DeliveredRecord]:
        """Pull up to ``max_records`` records for ``consumer_id``, waiting up to ``wait_s`` for the first.

        A pull uses no stream. The records are in flight for the ack deadline of the sink. The call is not retried if
        the connection breaks.
        """
        request = pb.PullRequest(
            sink=sink,
            subscription=subscription,
            consumer_id=consumer_id,
            max_records=max_records,
            wait=duration(wait_s),
            incarnation=incarnation,
        )
        response = await self._service.call("Pull", sink, request, extra_s=wait_s)
        Telemetry(sink, subscription, server=self._service.server_of(sink)).read("pull", len(response.records))
        return [convert.delivered_record(record, response.incarnation) for record in response.records]

    @operation
    async def ack(self, sink: str, records: Pulled, *, subscription: str = "default") -> list[SettleResult]:
        """Settle pulled records; returns one result per range of offsets.

        Raises ``SinkReplaced`` if the sink was deleted and recreated since the pull.
        """
        return await self._settle(sink, records, AnswerKind.ACK, subscription)

    @operation
    async def nack(
        self,
        sink: str,
        records: Pulled,
        *,
        subscription: str = "default",
        delay_s: float | None = None,
        reason: str = "",
    ) -> list[SettleResult]:
        """Reject pulled records for redelivery, not before ``delay_s``; returns one result per range.

        The call is not retried if the connection breaks: the records are then redelivered at the latest when their ack
        deadline has passed. Raises ``SinkReplaced`` if the sink was deleted and recreated since the pull.
        """
        return await self._settle(sink, records, AnswerKind.NACK, subscription, delay_s, reason)

    @operation
    async def peek(
        self,
        sink: str,
        *,
        partition: int | None = 0,
        offset: int | None = None,
        max_records: int = 10,
        incarnation: str = "",
    ) -> list[PeekedRecord]:
        """Return a few records as text, from ``offset`` or from the first unsettled record of ``default``.

        ``partition`` None shows records of all partitions; then ``offset`` must be None.
        """
        request = pb.PeekRequest(
            sink=sink,
            partition=partition,
            offset=offset,
            max_records=max_records,
            incarnation=incarnation,
            all_partitions=partition is None,
        )
        response = await self._service.call("Peek", sink, request)
        return [convert.value(PeekedRecord, record) for record in response.records]

    async def _settle(
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
        with Telemetry(sink, subscription, server=self._service.server_of(sink)).settling(
            kind, *_partition_and_count(answers)
        ):
            response = await self._service.call(rpc, sink, request)
        return [convert.settle_result(result) for result in response.results]


class BlockingCalls(ClientCalls, Blocking):
    """Unary calls that block. Thread-safe."""


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
