"""Information about a broker, and its orderly end."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from forebay.broker.embedded import BrokerServer
from forebay.broker.serve import serve
from forebay.broker.server import READINESS
from forebay.broker.settings import load
from forebay.broker.storage.errors import StoreUnreadable
from forebay.broker.storage.store.contract import Family
from forebay.broker.storage.store.memory import MemoryStore
from forebay.client import BrokerUnavailable, Client, ClientSettings, Record, RetryPolicy
from forebay.errors.reasons import Reason
from forebay.v1 import admin_service_pb2 as pb
from forebay.v1.admin_service_pb2_grpc import AdminServiceStub
from tests.support.calls.eventually import until, values_of
from tests.support.calls.streams import DeliverCall, PublishCall
from tests.support.refusals import failure

ONCE = ClientSettings(retry=RetryPolicy(tries_max=1))


def health(endpoint: str, service: str = "") -> str:
    with grpc.insecure_channel(endpoint) as channel:
        answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=service))
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))


def described(endpoint: str) -> pb.GetBrokerInfoResponse:
    with grpc.insecure_channel(endpoint) as channel:
        answer: pb.GetBrokerInfoResponse = AdminServiceStub(channel).GetBrokerInfo(pb.GetBrokerInfoRequest())
    return answer


def test_a_broker_says_who_it_is_and_what_it_holds() -> None:
    bounds: dict[str, Any] = {"sinks_max": 7, "tail_bytes": 1_000, "record_bytes_max": 2_000}
    with BrokerServer.in_memory(**bounds) as server, Client(server.endpoint) as client:
        client.sinks.create("orders")
        client.publish("orders", [Record(b"x")])
        info = client.info()

    assert (info.sinks, info.sinks_max, info.record_bytes_max, info.tail_bytes_max) == (1, 7, 2_000, 1_000)
    assert 0 < info.tail_bytes <= 1_000
    assert info.waiting_bytes == 0
    assert info.now is not None
    assert info.now >= info.started_at
    assert info.disk_free_bytes > info.disk_reserve_bytes == 512 << 20
    assert (info.memory_high_watermark, info.backup_target, info.newest_backup) == (0.8, "", "")


def test_the_store_keeps_its_id_and_counts_its_starts() -> None:
    store = MemoryStore()
    with BrokerServer.in_memory(store) as server:
        first = described(server.endpoint)
    with BrokerServer.in_memory(store.reopen()) as server:
        second = described(server.endpoint)

    assert first.store_id == second.store_id
    assert (first.start_count, second.start_count) == (1, 2)
    assert first.state == pb.BROKER_STATE_SERVING


def test_a_broker_that_serves_is_healthy_and_ready(broker: BrokerServer) -> None:
    assert (health(broker.endpoint), health(broker.endpoint, READINESS)) == ("SERVING", "SERVING")


def test_a_fenced_broker_says_so_and_refuses_everything_new() -> None:
    store = MemoryStore()
    with BrokerServer.in_memory(store) as server, Client(server.endpoint, settings=ONCE) as client:
        client.sinks.create("orders")
        with PublishCall(server.endpoint, "orders", "w") as call:
            call.publish(0, [b"a"])
            store.fail_next("sync")
            with failure(Reason.STORE_FENCED):
                call.publish(1, [b"b"])

        info = described(server.endpoint)
        with failure(Reason.STORE_FENCED):
            client.publish("orders", [Record(b"c")])
        with failure(Reason.STORE_FENCED):
            PublishCall(server.endpoint, "orders", "w")
        with failure(Reason.STORE_FENCED):
            DeliverCall(server.endpoint, "orders")

        assert info.state == pb.BROKER_STATE_FENCED
        assert "sync" in info.state_reason
        assert health(server.endpoint, READINESS) == "NOT_SERVING"


def test_a_partition_whose_reads_fail_is_shown_with_the_reason_and_continues_by_itself() -> None:
    store = MemoryStore()
    with (
        BrokerServer.in_memory(store, tail_bytes=0) as server,
        Client(server.endpoint, settings=ONCE) as client,
        client.subscriber("orders") as subscriber,
    ):
        client.sinks.create("orders")
        client.publish("orders", [Record(b"kept")])
        store.fail_reads(Family.SMALL)
        early = subscriber.take(0.0)
        with failure(Reason.READ_FAILED) as refused:
            client.peek("orders", offset=0)
        until(lambda: client.info().unreadable != ())
        info, stats = client.info(), client.sinks.stats("orders")
        explained = client.sinks.explain("orders", 0)
        store.let_read()
        delivery = subscriber.take(20.0)
        assert delivery is not None
        values = [record.value for record in delivery]
        until(lambda: client.info().unreadable == ())

    assert early is None
    assert (refused.value.reason, refused.value.retry_after_s) == ("READ_FAILED", 1.0)
    assert "partition 0 of orders" in info.unreadable[0]
    assert info.state == "SERVING"
    assert info.read_failures > 0
    assert "READ_FAILED" in stats.subscriptions[0].partitions[0].reason
    assert stats.partitions[0].dropped == {}
    assert explained.wait == "READ_FAILED"
    assert values == [b"kept"]


def test_the_start_after_a_fence_has_exactly_the_answered_records() -> None:
    store = MemoryStore()
    with BrokerServer.in_memory(store) as server, Client(server.endpoint, settings=ONCE) as client:
        client.sinks.create("orders")
        client.publish("orders", [Record(b"answered")])
        store.fail_next("write")
        with failure(Reason.STORE_FENCED):
            client.publish("orders", [Record(b"refused")])

    with BrokerServer.in_memory(store.crash()) as server, Client(server.endpoint) as client:
        assert values_of(client, "orders") == [b"answered"]


def test_every_record_with_a_receipt_before_a_stop_is_stored_after_it() -> None:
    store = MemoryStore()
    with BrokerServer.in_memory(store) as server, Client(server.endpoint) as client:
        client.sinks.create("orders")
        publisher = client.publisher("orders", linger_ms=0, delivery_timeout_s=30.0)
        futures = [publisher.send(b"%d" % number) for number in range(500)]
        futures[100].result(20)
        server.stop()
        publisher.abandon()
        answered = [number for number, one in enumerate(futures) if one.done() and one.exception() is None]

    with BrokerServer.in_memory(store.crash()) as server, Client(server.endpoint) as client:
        stored = values_of(client, "orders")

    assert len(answered) > 100
    assert set(stored) >= {b"%d" % number for number in answered}
    assert stored == [b"%d" % number for number in range(len(stored))]


def test_sigterm_ends_a_broker_in_order(tmp_path: Path) -> None:
    """The signal comes while a publisher, a consumer and a replay are connected."""
    settings = load(data_dir=tmp_path / "data", listen="127.0.0.1:0", drain_s=20.0, disk_reserve_bytes=0)
    seen: Future[list[str]] = Future()

    def use(endpoint: str) -> None:
        met: list[str] = []
        try:
            with Client(endpoint, settings=ClientSettings(reattach_timeout_s=0.0)) as client:
                client.sinks.create("orders")
                with PublishCall(endpoint, "orders", "w") as publish, DeliverCall(endpoint, "orders") as deliver:
                    publish.publish(0, [b"answered"])
                    deliver.delivered(1)
                    steps = client.replay("orders", partition=0, follow=True)
                    next(steps)
                    os.kill(os.getpid(), signal.SIGTERM)
                    for ended in (publish.take, lambda: deliver.next("results"), lambda: next(steps)):
                        try:
                            ended()
                        except BrokerUnavailable as error:
                            met.append(error.reason)
        finally:
            seen.set_result(met)

    user: list[threading.Thread] = []

    def ready(endpoint: str) -> None:
        user.append(threading.Thread(target=use, args=[endpoint]))
        user[0].start()

    code = serve(settings, on_ready=ready)
    user[0].join(20)
    with BrokerServer.on_disk(settings) as server, Client(server.endpoint) as client:
        stored = values_of(client, "orders")

    assert code == 0
    assert seen.result(20) == ["DRAINING", "DRAINING", "DRAINING"]
    assert stored == [b"answered"]


def test_a_start_whose_reads_fail_beyond_what_recovery_reads_is_refused_with_the_stores_own_error() -> None:
    store = MemoryStore()
    with BrokerServer.in_memory(store) as server, Client(server.endpoint) as client:
        client.sinks.create("orders", buffer_mode="SPILL", volatile=True, memory_cache_threshold=1, buffer_page_size=1)
        for number in range(3):
            client.publish("orders", [Record(b"%d" % number)])
    again = store.reopen()
    again.fail_reads(Family.INDEX)

    with pytest.raises(StoreUnreadable, match="I/O error"):
        BrokerServer.in_memory(again).start()
