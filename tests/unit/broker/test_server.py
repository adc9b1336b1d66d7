from __future__ import annotations

import threading
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from forebay.broker.embedded import BrokerServer
from forebay.broker.server import READINESS
from forebay.broker.settings import load
from forebay.broker.shard import boot_time_s
from forebay.broker.storage.replication.engines.memory import MemoryEngine
from forebay.broker.storage.replication.followers.follower import Follower, Takeover
from forebay.broker.storage.replication.reader import Reader
from forebay.broker.storage.replication.replica import Replica
from forebay.broker.storage.replication.store import ReplicatedStore
from forebay.broker.storage.store.rocks.store import RocksStore
from tests.support.calls.eventually import until


def owned(engine: MemoryEngine, directory: Path) -> ReplicatedStore:
    """A store in a directory that owns a journal."""
    replica = Replica(RocksStore(directory))
    reader = Reader(engine, replica.place)
    owner = Follower(reader, replica, directory, Takeover(0.0, ""), boot_time_s).follow(threading.Event())
    assert owner is not None
    return ReplicatedStore(replica, owner, engine)


@pytest.mark.slow
def test_a_broker_that_stops_is_not_ready_again_when_its_journal_confirms(tmp_path: Path) -> None:
    engine = MemoryEngine()
    settings = load(
        data_dir=tmp_path, listen="127.0.0.1:0", disk_reserve_bytes=0, journal="/j", takeover_after_s=1.0, drain_s=2.0
    )
    server = BrokerServer(settings, owned(engine, tmp_path))
    server.start()
    stop = threading.Thread(target=server.stop)
    states: list[int] = []
    with grpc.insecure_channel(server.endpoint) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service=READINESS))
        states.append(next(watch).status)
        engine.away = True
        states.append(next(watch).status)
        stop.start()
        assert server.serving is not None
        serving = server.serving
        until(lambda: serving.broker.draining, timeout_s=10.0)
        engine.away = False
        states.extend(found.status for found in watch)
    stop.join()

    answer = health_pb2.HealthCheckResponse
    assert states == [answer.SERVING, answer.NOT_SERVING]


def test_a_stop_does_not_wait_for_an_open_watch_of_the_health() -> None:
    server = BrokerServer.in_memory(drain_s=300.0)
    server.start()
    stop = threading.Thread(target=server.stop, daemon=True)
    with grpc.insecure_channel(server.endpoint) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service=READINESS))
        states = [next(watch).status]
        stop.start()
        states.extend(found.status for found in watch)
        stop.join(60)

    assert states[0] == health_pb2.HealthCheckResponse.SERVING
    assert not stop.is_alive()
