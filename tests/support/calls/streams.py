"""Calls of the buffer's streams, message by message: for cases that a well-behaved client never brings about."""

from __future__ import annotations

import queue
import zlib
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Final, Generic, Self, TypeVar

import grpc

from forebay.client.publish.pages import encode_columns
from forebay.client.transport.status import from_call, from_status
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import record_pb2
from forebay.v1.buffer_service_pb2_grpc import BufferServiceStub

ANSWER_S: Final = 20.0

Request = TypeVar("Request")
Response = TypeVar("Response")


class _Stream(Generic[Request, Response]):
    """One bidirectional call: requests go out as they are put, responses are taken one by one."""

    def __init__(self, endpoint: str, method: str) -> None:
        self._channel = grpc.insecure_channel(endpoint, options=[("grpc.use_local_subchannel_pool", 1)])
        self._requests: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._call = getattr(BufferServiceStub(self._channel), method)(self._sent(), timeout=ANSWER_S)

    def _sent(self) -> Iterator[Request]:
        while (request := self._requests.get()) is not None:
            yield request

    def put(self, request: Request) -> None:
        """Send a request."""
        self._requests.put(request)

    def take(self) -> Response:
        """Return the next response, waiting for it; raises what ended the call."""
        try:
            response: Response = next(self._call)
        except grpc.RpcError as failure:
            raise from_call(failure) from failure
        return response

    def half_close(self) -> None:
        """Say that nothing more will be sent."""
        self._requests.put(None)

    def close(self) -> None:
        """End the call and the connection."""
        self._requests.put(None)
        self._call.cancel()
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class PublishCall(_Stream[pb.PublishRequest, pb.PublishResponse]):
    """A publish stream of one writer."""

    def __init__(
        self, endpoint: str, sink: str, writer_id: str, *, epoch: int | None = None, together: bool = False
    ) -> None:
        super().__init__(endpoint, "Publish")
        opening = pb.PublishOpen(sink=sink, writer_id=writer_id, writer_epoch=epoch, answers_together=together)
        self.put(pb.PublishRequest(open=opening))
        self.opened = self.take().opened

    def send(self, sequence: int, values: Sequence[bytes], *, partition: int = 0) -> None:
        """Send a page and wait for nothing."""
        page = encode_columns(values)
        self.put(
            pb.PublishRequest(
                page=pb.PublishPage(
                    partition=partition,
                    sequence=sequence,
                    encoding=record_pb2.ENCODING_RECORDS,
                    record_count=len(values),
                    crc32=zlib.crc32(page.body),
                    body=page.body,
                )
            )
        )

    def answer(self) -> record_pb2.Receipt:
        """Return the next page's receipt; raises why it was refused."""
        answer = self.take().answer
        if not answer.HasField("receipt"):
            raise from_status(answer.refusal)
        return answer.receipt

    def publish(self, sequence: int, values: Sequence[bytes], *, partition: int = 0) -> record_pb2.Receipt:
        """Send a page and return its receipt; raises why it was refused."""
        self.send(sequence, values, partition=partition)
        return self.answer()


class DeliverCall(_Stream[pb.DeliverRequest, pb.DeliverResponse]):
    """A deliver stream of one consumer."""

    def __init__(
        self,
        endpoint: str,
        sink: str,
        *,
        consumer_id: str = "consumer",
        records: int = 1_000,
        bytes_: int = 16 << 20,
        answers_pings: bool = False,
    ) -> None:
        super().__init__(endpoint, "Deliver")
        credit = pb.Credit(records=records, bytes=bytes_)
        opening = pb.DeliverOpen(sink=sink, consumer_id=consumer_id, credit=credit, answers_pings=answers_pings)
        self.put(pb.DeliverRequest(open=opening))
        self.opened = self.take().opened
        self.told: list[pb.DeliverResponse] = []
        """Everything that came, in order."""

        self._passed: list[pb.DeliverResponse] = []
        """Received messages that were not read yet."""

    def next(self, kind: str) -> pb.DeliverResponse:
        """Return the first response of a kind that was not returned yet."""
        for index, passed in enumerate(self._passed):
            if passed.WhichOneof("response") == kind:
                return self._passed.pop(index)
        while True:
            response = self.take()
            self.told.append(response)
            if response.WhichOneof("response") == kind:
                return response
            self._passed.append(response)

    def delivered(self, records: int) -> list[pb.Delivery]:
        """Return the next deliveries, until they hold ``records`` records."""
        found: list[pb.Delivery] = []
        while sum(len(offsets(one)) for one in found) < records:
            found.append(self.next("delivery").delivery)
        return found

    def put_credit(self, records: int, bytes_: int = 16 << 20) -> None:
        """Change the credit."""
        self.put(pb.DeliverRequest(credit=pb.Credit(records=records, bytes=bytes_)))

    def ack(self, owner_epoch: int, revision: int, first: int, last: int) -> list[pb.SettleResult]:
        """Ack a range and return the results."""
        ranges = [record_pb2.OffsetRange(first_offset=first, last_offset=last)]
        ack = pb.AckRanges(partition=0, owner_epoch=owner_epoch, revision=revision, ranges=ranges)
        self.put(pb.DeliverRequest(ack=ack))
        return list(self.next("results").results.results)

    def nack(self, owner_epoch: int, revision: int, first: int, last: int) -> list[pb.SettleResult]:
        """Nack a range for immediate redelivery, and return the results."""
        ranges = [record_pb2.OffsetRange(first_offset=first, last_offset=last)]
        nack = pb.NackRanges(partition=0, owner_epoch=owner_epoch, revision=revision, ranges=ranges)
        nack.retry.delay.FromMilliseconds(0)
        self.put(pb.DeliverRequest(nack=nack))
        return list(self.next("results").results.results)

    def drop(self, owner_epoch: int, revision: int, first: int, last: int) -> list[pb.SettleResult]:
        """Reject a range for good, to be dropped, and return the results."""
        ranges = [record_pb2.OffsetRange(first_offset=first, last_offset=last)]
        nack = pb.NackRanges(partition=0, owner_epoch=owner_epoch, revision=revision, ranges=ranges)
        nack.drop.reason = "never"
        self.put(pb.DeliverRequest(nack=nack))
        return list(self.next("results").results.results)


def offsets(delivery: pb.Delivery) -> list[int]:
    """The offsets to process."""
    return [offset for one in delivery.ranges for offset in range(one.first_offset, one.last_offset + 1)]


def outcomes(results: Sequence[pb.SettleResult]) -> list[tuple[int, int, str]]:
    """First offset, last offset and outcome of each result."""
    names = pb.SettleOutcome.Name
    return [
        (one.range.first_offset, one.range.last_offset, names(one.outcome).removeprefix("SETTLE_OUTCOME_"))
        for one in results
    ]
