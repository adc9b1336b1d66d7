"""Large requests on slow connections: taken however slow they are, and ended with a reason where memory is short."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait

import grpc
import pytest

from forebay.broker.embedded import BrokerServer
from forebay.client import Client, Record, ResourceExhausted
from forebay.v1 import sink_service_pb2 as pb
from tests.support.proxies.tcp import Connection, TcpProxy

MIB = 1 << 20
BATCH = [Record(b"x" * (7 * MIB)) for _ in range(4)]
SLOW_FROM = 24 * MIB
SLOW_CHUNK_S = 0.1


class SlowLinks:
    """Passes requests of connections at one pace, and slowly once most of a batch has passed.

    Nothing is stopped altogether: gRPC gives a client the end of a call only when the kernel has taken what it is
    writing, and a connection without a byte for 20 s is that of a dead peer.
    """

    def __init__(self, connections: int) -> None:
        self._expected = connections
        self._passed: dict[Connection, int] = {}
        self._is_fast = False
        self._changed = threading.Condition()

    def __call__(self, connection: Connection, chunk: bytes, send: Callable[[bytes], None]) -> None:
        with self._changed:
            passed = self._passed[connection] = self._passed.get(connection, 0) + len(chunk)
            self._changed.notify_all()
            if passed > SLOW_FROM:
                self._changed.wait_for(lambda: self._is_fast, SLOW_CHUNK_S)
            else:
                self._changed.wait_for(lambda: self._is_fast or passed <= self._slowest() + MIB)
        send(chunk)

    def make_fast(self) -> None:
        """Pass everything at once from now on."""
        with self._changed:
            self._is_fast = True
            self._changed.notify_all()

    def _slowest(self) -> int:
        return min(self._passed.values()) if len(self._passed) == self._expected else 0


def test_of_large_requests_that_arrive_slowly_one_is_ended_where_they_take_too_much_and_the_others_are_taken() -> None:
    links = SlowLinks(3)

    def publish(endpoint: str) -> None:
        with Client(endpoint) as client:
            client.publish("orders", BATCH)

    with (
        BrokerServer.in_memory(unread_bytes_max=64 * MIB) as broker,
        Client(broker.endpoint) as client,
        TcpProxy(broker.endpoint, on_request=links) as proxy,
        ThreadPoolExecutor(3) as threads,
    ):
        client.sinks.create("orders")
        publishing: list[Future[None]] = [threads.submit(publish, proxy.endpoint) for _ in range(3)]
        wait(publishing, 60.0, FIRST_EXCEPTION)
        client.publish("orders", [Record(b"beside them")])
        links.make_fast()
        errors = [one.exception(60.0) for one in publishing]
        accepted = client.sinks.stats("orders").partitions[0].next_offset

    [error] = [one for one in errors if one is not None]
    assert isinstance(error, ResourceExhausted)
    assert error.reason == "REQUEST_TOO_SLOW"
    assert (error.retryable, error.retry_after_s) == (True, 2.0)
    assert accepted == 2 * len(BATCH) + 1


def test_a_compressed_message_is_refused_before_it_is_more_than_it_was(broker: BrokerServer) -> None:
    with grpc.insecure_channel(broker.endpoint) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/forebay.v1.SinkService/CreateSink")
        request = pb.CreateSinkRequest(name="orders" * 8).SerializeToString()

        with pytest.raises(grpc.RpcError) as refused:
            call(request, timeout=30.0, compression=grpc.Compression.Gzip)

        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_call_without_a_request_ends_with_a_reason(broker: BrokerServer) -> None:
    with grpc.insecure_channel(broker.endpoint) as channel:
        call: grpc.StreamUnaryMultiCallable[bytes, bytes] = channel.stream_unary("/forebay.v1.SinkService/ListSinks")

        with pytest.raises(grpc.RpcError) as refused:
            call(iter(()), timeout=30.0)

        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
