"""Pages and streams that a broker does not take."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest

from forebay.broker.embedded import BrokerServer
from forebay.client import Client, SinkNotFound
from forebay.client.errors import ForebayError
from forebay.client.transport.status import from_call
from forebay.errors.reasons import Reason
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import record_pb2
from forebay.v1.buffer_service_pb2_grpc import BufferServiceStub
from tests.support.calls.streams import PublishCall
from tests.support.pages.hand_made import body, page
from tests.support.refusals import failure

MIB = 1 << 20
HEADERS = record_pb2.Headers(entries=[record_pb2.Header(key="k")] * 65)


@pytest.fixture
def call(broker: BrokerServer, client: Client) -> Iterator[PublishCall]:
    """A publish stream of a writer, to a sink of two partitions."""
    client.sinks.create("orders", partitions=2)
    with PublishCall(broker.endpoint, "orders", "writer") as one:
        yield one


@contextmanager
def streaming(broker: BrokerServer, *requests: pb.PublishRequest) -> Iterator[Any]:
    """A publish stream of hand-made messages."""
    sent: queue.SimpleQueue[pb.PublishRequest | None] = queue.SimpleQueue()
    for request in requests:
        sent.put(request)
    with grpc.insecure_channel(broker.endpoint) as channel:
        responses = BufferServiceStub(channel).Publish(iter(sent.get, None), timeout=20)
        yield responses
        sent.put(None)
        responses.cancel()


def refusal(responses: Any) -> ForebayError:
    with pytest.raises(grpc.RpcError) as failure:
        for _ in responses:
            pass
    return from_call(failure.value)


# -- wrong pages


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (page(body(b"a"), crc32=1), Reason.PAGE_CORRUPT),
        (page(body(b"a"), records=2), Reason.INVALID_PAGE),
        (page(body(b"a", b"b"), records=1), Reason.INVALID_PAGE),
        (page(body(b"a"), records=0), Reason.INVALID_PAGE),
        (page(b"", records=0), Reason.INVALID_PAGE),
        (page(b"", records=1), Reason.INVALID_PAGE),
        (page(b"\xff\xfe garbage", records=1), Reason.INVALID_PAGE),
        (page(b"\x00" * 10_000, records=1), Reason.INVALID_PAGE),
        (page(body(b"a", key_lengths=[5], keys=b"k")), Reason.INVALID_PAGE),
        (page(body(b"a", event_times_us=[1, 2])), Reason.INVALID_PAGE),
        (page(body(b"a", event_times_us=[1_700_000_000_000_000_000])), Reason.INVALID_PAGE),
        (page(body(*[b""] * 65_537), records=65_537), Reason.INVALID_PAGE),
        (page(body(b"a", headers=[HEADERS])), Reason.INVALID_PAGE),
        (page(body(b"a") * 4_097, records=4_097), Reason.INVALID_PAGE),
        (page(body(b"a"), encoding=7), Reason.INVALID_PAGE),
        (page(body(b"a"), encoding=0), Reason.INVALID_PAGE),
        (page(body(b"a"), traceparent="x" * 129), Reason.INVALID_PAGE),
        (page(body(b"a"), traceparent="größe"), Reason.INVALID_PAGE),
        (page(body(b"a"), partition=2), Reason.INVALID_PARTITION),
        (page(body(b"a"), partition=2**32 - 1), Reason.INVALID_PARTITION),
        (page(body(b"x" * MIB, b"x" * 100), records=2), Reason.RECORD_TOO_LARGE),
        (page(body(b"x" * (8 * MIB + 100))), Reason.RECORD_TOO_LARGE),
    ],
)
def test_a_wrong_page_is_refused_and_a_right_one_follows(
    call: PublishCall, request_: pb.PublishRequest, reason: Reason
) -> None:
    call.put(request_)
    with failure(reason):
        call.answer()

    assert call.publish(0, [b"right"], partition=1).first_offset == 0


def test_pages_of_the_largest_and_smallest_allowed_size_are_accepted(call: PublishCall) -> None:
    for number, (data, records) in enumerate(
        [
            (body(b"x" * (8 * MIB)), 1),
            (body(b"x" * (MIB // 2), b"x" * (MIB // 2)), 2),
            (body(*[b""] * 65_536), 65_536),
            (body(b""), 1),
        ]
    ):
        call.put(page(data, records=records, sequence=number))

    assert [call.answer().last_offset for _ in range(4)] == [0, 2, 65_538, 65_539]


# -- wrong streams


@pytest.mark.parametrize(
    "first",
    [
        pb.PublishRequest(),
        page(body(b"a")),
        pb.PublishRequest(close=pb.PublishClose()),
        pb.PublishRequest(open=pb.PublishOpen(sink="orders")),
        pb.PublishRequest(open=pb.PublishOpen(sink="orders", writer_id="a b")),
        pb.PublishRequest(open=pb.PublishOpen(sink="orders", writer_id="x" * 65)),
    ],
)
def test_a_stream_begins_with_a_good_open(broker: BrokerServer, client: Client, first: pb.PublishRequest) -> None:
    client.sinks.create("orders")

    with streaming(broker, first) as responses:
        assert refusal(responses).reason == "INVALID_OPEN"


def test_a_stream_is_opened_once(broker: BrokerServer, client: Client) -> None:
    client.sinks.create("orders")
    opening = pb.PublishRequest(open=pb.PublishOpen(sink="orders", writer_id="w"))

    for second in (opening, pb.PublishRequest()):
        with streaming(broker, opening, second) as responses:
            assert refusal(responses).reason == "INVALID_OPEN"


def test_a_publish_to_a_sink_that_was_deleted_meanwhile_is_refused(client: Client, call: PublishCall) -> None:
    call.publish(0, [b"a"])
    client.sinks.delete("orders", force=True)

    with pytest.raises(SinkNotFound):
        call.publish(1, [b"b"])
