"""Peers that read nothing: their cost is bounded for each and for all, and the others continue."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from forebay.broker.embedded import BrokerServer
from forebay.broker.rpc.buffer import deliver_stream, publish_stream
from forebay.broker.runtime.delivery.consumer import UNSENT_BYTES
from forebay.broker.runtime.resources.stream_memory import COPIES
from forebay.client import Client, Record
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import record_pb2
from forebay.v1.buffer_service_pb2_grpc import BufferServiceStub
from tests.support.calls.raw_calls import UnreadCall

MIB: Final = 1 << 20
WAIT_S: Final = 30.0
CREDIT: Final = pb.Credit(records=1_000_000, bytes=256 * MIB)
NARROW: Final = [
    ("grpc.http2.lookahead_bytes", 1_024),
    ("grpc.http2.bdp_probe", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", 64 * MIB),
]
"""A client that takes in nothing unasked."""


class Unread:
    """A call of which nothing is read until ``read``."""

    def __init__(self, server: BrokerServer, stack: ExitStack) -> None:
        self._stub = BufferServiceStub(stack.enter_context(grpc.insecure_channel(server.endpoint, options=NARROW)))
        self._over = threading.Event()
        stack.callback(self._over.set)
        self.sent = 0
        self.call: Any = None

    def deliver(self, consumer: str, requests: Iterable[pb.DeliverRequest] = ()) -> None:
        opening = pb.DeliverOpen(sink="orders", consumer_id=consumer, subscription=consumer, credit=CREDIT)
        self.call = self._stub.Deliver(self._all(pb.DeliverRequest(open=opening), requests))

    def publish(self, requests: Iterable[pb.PublishRequest]) -> None:
        opening = pb.PublishOpen(sink="orders", writer_id="unread")
        self.call = self._stub.Publish(self._all(pb.PublishRequest(open=opening), requests))

    def replay(self) -> None:
        self.call = self._stub.Replay(pb.ReplayRequest(sink="orders"))

    def _all(self, opening: Any, requests: Iterable[Any]) -> Iterator[Any]:
        yield opening
        for request in requests:
            yield request
            self.sent += 1
        self._over.wait()

    def outcome(self) -> str:
        """Read all there is; returns the reason of its end."""
        try:
            for _ in self.call:
                pass
        except grpc.RpcError as error:
            return _reason(error)
        return "OK"


def _reason(error: Any) -> str:
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            info = error_details_pb2.ErrorInfo()
            for detail in status_pb2.Status.FromString(value).details:
                if detail.Unpack(info):
                    return str(info.reason)
    return str(error.code().name)


@contextmanager
def serving(**settings: Any) -> Iterator[tuple[BrokerServer, Client, ExitStack]]:
    with (
        BrokerServer.in_memory(**settings) as server,
        Client(server.endpoint) as client,
        ExitStack() as stack,
    ):
        client.sinks.create("orders")
        yield server, client, stack


def held(server: BrokerServer) -> int:
    assert server.serving is not None
    return server.serving.broker.stream_memory.budget.used


def fill(client: Client, mib: int) -> None:
    for _ in range(mib):
        client.publish("orders", [Record(b"x" * (MIB - 200))], partition=0)


def eventually(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        if holds():
            return True
        time.sleep(0.05)
    return False


def steady(value: Callable[[], int]) -> int:
    """Return a value once it has stayed the same for a second."""
    seen, since, until = value(), time.monotonic(), time.monotonic() + WAIT_S
    while time.monotonic() < until and time.monotonic() - since < 1.0:
        time.sleep(0.05)
        if (now := value()) != seen:
            seen, since = now, time.monotonic()
    return seen


def test_of_a_large_credit_only_a_few_deliveries_wait_in_memory() -> None:
    with serving() as (server, client, stack):
        fill(client, 24)
        client.subscriptions.create("orders", "slow", start="earliest")
        Unread(server, stack).deliver("slow")

        assert eventually(lambda: held(server) > 0)
        assert 0 < steady(lambda: held(server)) <= (UNSENT_BYTES + 3 * MIB) * COPIES


def test_the_memory_of_a_slow_reader_is_released_when_it_disconnects() -> None:
    with serving() as (server, client, _stack):
        fill(client, 8)
        with ExitStack() as reader:
            unread = Unread(server, reader)
            unread.replay()
            assert eventually(lambda: held(server) > 0)

        assert eventually(lambda: held(server) == 0)


def streams(server: BrokerServer) -> int:
    assert server.serving is not None
    return len(server.serving.broker.streams)


@pytest.mark.parametrize("kind", ["deliver", "replay"])
def test_readers_that_take_nothing_are_ended_when_others_need_the_memory(kind: str) -> None:
    slow = 12
    with serving(stream_bytes_max=16 * MIB) as (server, client, stack):
        fill(client, 8)
        readers = [Unread(server, stack) for _ in range(slow)]
        for number, reader in enumerate(readers):
            if kind == "replay":
                reader.replay()
            else:
                client.subscriptions.create("orders", f"slow-{number}", start="earliest")
                reader.deliver(f"slow-{number}")
        assert eventually(lambda: streams(server) == slow and held(server) > 8 * MIB)

        assert sum(1 for _ in client.replay("orders")) == 8
        assert held(server) <= 24 * MIB
        assert eventually(lambda: streams(server) < slow)


def test_a_reader_that_is_ended_and_reads_on_is_notified_why() -> None:
    slow = 12
    with serving(stream_bytes_max=16 * MIB) as (server, client, stack):
        fill(client, 8)
        readers = [Unread(server, stack) for _ in range(slow)]
        for reader in readers:
            reader.replay()
        assert eventually(lambda: streams(server) == slow)
        assert eventually(lambda: streams(server) < slow)

        with ThreadPoolExecutor(slow) as threads:
            reasons = set(threads.map(Unread.outcome, readers))

        assert "READER_TOO_SLOW" in reasons
        assert reasons <= {"READER_TOO_SLOW", "OK", "UNAVAILABLE"}


def test_a_consumer_that_reads_no_results_is_not_read_from_any_more() -> None:
    ranges = [record_pb2.OffsetRange(first_offset=n, last_offset=n) for n in range(0, 2_000, 2)]
    ack = pb.DeliverRequest(ack=pb.AckRanges(partition=0, owner_epoch=1, revision=0, ranges=ranges))
    with serving() as (server, client, stack):
        client.subscriptions.create("orders", "slow", start="earliest")
        unread = Unread(server, stack)

        unread.deliver("slow", (ack for _ in range(4_000)))

        assert steady(lambda: unread.sent) < 4_000
        assert held(server) <= (deliver_stream.RESULTS_MAX + len(ranges)) * deliver_stream.RESULT_BYTES


def test_a_publisher_that_reads_no_answers_is_not_read_from_any_more() -> None:
    page = pb.PublishRequest(page=pb.PublishPage(partition=0, sequence=1, encoding=1, record_count=1))  # type: ignore[arg-type]
    with serving() as (server, _, stack):
        unread = Unread(server, stack)

        unread.publish(page for _ in range(1_000_000))

        assert steady(lambda: held(server)) <= (publish_stream.UNANSWERED_MAX + 1) * publish_stream.ANSWER_BYTES
        assert unread.sent < 1_000_000


def fill_with_small_ones(client: Client, mib: int) -> None:
    """As ``fill``, with records that a peek shows whole."""
    for _ in range(mib):
        client.publish("orders", [Record(b"x" * 4_096)] * 240, partition=0)


def request_of(kind: str, number: int) -> tuple[str, bytes]:
    """A call whose answer is 1 to 8 MiB, and its request."""
    if kind == "peek":
        peek = pb.PeekRequest(sink="orders", offset=0, max_records=1_000)
        return "/forebay.v1.BufferService/Peek", peek.SerializeToString()
    pull = pb.PullRequest(sink="orders", subscription=f"slow-{number}", consumer_id="slow", max_records=10_000)
    return "/forebay.v1.BufferService/Pull", pull.SerializeToString()


@pytest.mark.parametrize("kind", ["pull", "peek"])
def test_unread_answers_of_single_calls_count_until_the_caller_is_gone(kind: str) -> None:
    with serving() as (server, client, _stack):
        fill_with_small_ones(client, 4)
        client.subscriptions.create("orders", "slow-0", start="earliest")
        with UnreadCall(server.endpoint, *request_of(kind, 0)):
            assert eventually(lambda: held(server) >= 3 * MIB * COPIES)
            assert 3 * MIB * COPIES <= steady(lambda: held(server)) <= 5 * MIB * COPIES

        assert eventually(lambda: held(server) == 0)


@pytest.mark.parametrize(("kind", "slow"), [("pull", 24 // COPIES), ("peek", 2)])
def test_callers_that_take_no_answer_lose_their_connection_when_others_need_the_memory(kind: str, slow: int) -> None:
    with serving(stream_bytes_max=16 * MIB) as (server, client, stack):
        fill_with_small_ones(client, 8)
        for number in range(slow):
            client.subscriptions.create("orders", f"slow-{number}", start="earliest")
        callers = [
            stack.enter_context(UnreadCall(server.endpoint, *request_of(kind, number))) for number in range(slow)
        ]
        assert eventually(lambda: held(server) > 7 * MIB)

        taken = client.pull("orders", max_records=1, wait_s=0.0)

        assert len(taken) == 1
        assert held(server) <= 32 * MIB
        assert eventually(lambda: any(caller.is_closed() for caller in callers))
