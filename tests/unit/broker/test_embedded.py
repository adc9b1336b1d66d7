from __future__ import annotations

import gc
import socket
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from forebay.broker.embedded import BrokerServer
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.server import READINESS
from forebay.broker.settings import BrokerSettings, load
from forebay.broker.storage.errors import StoreClosed, StoreLocked
from forebay.broker.storage.store.memory import MemoryStore
from forebay.client import Client


@pytest.fixture
def taken() -> Iterator[str]:
    """Address in use."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def on_disk(path: Path, listen: str = "127.0.0.1:0") -> BrokerSettings:
    return load(data_dir=path / "data", listen=listen, disk_reserve_bytes=0)


def test_a_broker_listens_on_a_free_port_of_the_loopback_interface() -> None:
    with BrokerServer.in_memory() as one, BrokerServer.in_memory() as other:
        assert one.endpoint.startswith("127.0.0.1:")
        assert one.endpoint != other.endpoint


def test_it_is_ready_when_start_returns_and_gone_when_stop_does() -> None:
    with BrokerServer.in_memory() as server:
        with grpc.insecure_channel(server.endpoint) as channel:
            request = health_pb2.HealthCheckRequest(service=READINESS)
            answer = health_pb2_grpc.HealthStub(channel).Check(request, timeout=10)
        host, port = server.endpoint.split(":")
        server.stop()

        with pytest.raises(ConnectionRefusedError), socket.create_connection((host, int(port)), timeout=5):
            pass
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_a_second_stop_has_no_effect_and_the_store_is_closed() -> None:
    store = MemoryStore()
    with BrokerServer.in_memory(store) as server:
        server.stop()
        server.stop()

    with pytest.raises(StoreClosed):
        store.live_bytes()


def test_a_broker_that_is_embedded_does_not_change_the_garbage_collection_of_the_process() -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()
    with BrokerServer.in_memory() as server, Client(server.endpoint) as client:
        client.sinks.create("orders")
        client.sinks.delete("orders")

    assert gc.get_freeze_count() > frozen // 2


def test_it_runs_on_the_clock_that_it_was_given() -> None:
    clock = FakeClock(wall=5_000_000)
    with BrokerServer.in_memory(clock=clock) as server:
        assert server.serving is not None
        assert server.serving.broker.clock is clock


@pytest.mark.slow
def test_a_directory_has_one_owner_at_a_time(tmp_path: Path) -> None:
    settings = on_disk(tmp_path)
    with BrokerServer.on_disk(settings), pytest.raises(StoreLocked):
        BrokerServer.on_disk(settings)
    with BrokerServer.on_disk(settings) as again:
        assert again.endpoint


@pytest.mark.slow
def test_a_broker_that_cannot_listen_raises_an_error_and_closes_its_store(tmp_path: Path, taken: str) -> None:
    with pytest.raises(OSError, match="cannot listen"), BrokerServer.on_disk(on_disk(tmp_path, taken)):
        pass

    with BrokerServer.on_disk(on_disk(tmp_path)) as server:
        assert server.endpoint
