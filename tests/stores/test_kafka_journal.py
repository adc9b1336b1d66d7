"""Journals in a real Kafka of three nodes."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.broker.storage.replication.engine import Engine
from forebay.broker.storage.replication.engines.addresses import open_engine
from forebay.client import Client, ReplayedRecord
from tests.support.calls.eventually import until
from tests.support.processes.broker import serve_command
from tests.support.storage.engine_conformance import EngineConformance
from tests.support.stores.kafka import KafkaCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    one = KafkaCluster(Path(tempfile.mkdtemp(prefix="forebay-store-")))
    try:
        one.start()
        yield one
    finally:
        one.close()


def topic() -> str:
    return f"journal-{secrets.token_hex(4)}"


class TestKafkaEngine(EngineConformance):
    @pytest.fixture
    def engine(self, cluster: KafkaCluster) -> Engine:
        return open_engine(cluster.url(topic()))


def test_a_follower_serves_what_the_owner_gave_receipts_for(cluster: KafkaCluster, tmp_path: Path) -> None:
    environment = {"FOREBAY_JOURNAL": cluster.url(topic()), "FOREBAY_TAKEOVER_AFTER_S": "2"}
    values = [b"%d" % number * 1_000 for number in range(500)]
    with serve_command(tmp_path / "a", environment=environment) as owner:
        with Client(owner.ready(60.0)) as client:
            client.sinks.create("orders")
            with client.publisher("orders") as publisher:
                publisher.send_many(values)
        with serve_command(tmp_path / "b", environment=environment) as follower:
            owner.kill()
            with Client(follower.ready(60.0)) as client:
                found = list(client.replay("orders"))
    assert [record.value for record in found if isinstance(record, ReplayedRecord)] == values


def test_a_broker_on_an_empty_disk_gets_everything_from_checkpoint_and_journal(
    cluster: KafkaCluster, tmp_path: Path
) -> None:
    environment = {
        "FOREBAY_JOURNAL": cluster.url(topic()),
        "FOREBAY_TAKEOVER_AFTER_S": "2",
        "FOREBAY_JOURNAL_GARBAGE_BYTES": str(1 << 20),
    }
    values = [b"%d" % number * 50_000 for number in range(100)]
    with serve_command(tmp_path / "a", environment=environment) as owner:
        with Client(owner.ready(60.0)) as client:
            client.sinks.create("orders")
            with client.publisher("orders") as publisher:
                publisher.send_many(values)
            engine = open_engine(environment["FOREBAY_JOURNAL"], creates=False)
            until(lambda: engine.read(1) is None, timeout_s=60.0)
            with client.publisher("orders") as publisher:
                publisher.send(b"last")
        owner.kill()
    with serve_command(tmp_path / "b", environment=environment) as other:
        with Client(other.ready(60.0)) as client:
            found = list(client.replay("orders"))
        assert "loaded a checkpoint" in other.log.read_text()
    assert [record.value for record in found if isinstance(record, ReplayedRecord)] == [*values, b"last"]
