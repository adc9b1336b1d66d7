"""Journals in a real Kafka of three nodes."""

from __future__ import annotations

import logging
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from forebay.broker.storage.replication.checkpoints.damage_notes import DAMAGED
from forebay.broker.storage.replication.checkpoints.errors import CheckpointDamaged
from forebay.broker.storage.replication.checkpoints.loading import load
from forebay.broker.storage.replication.checkpoints.manifests import load_manifest
from forebay.broker.storage.replication.engine import Engine, EngineAway, EngineUnsuitable
from forebay.broker.storage.replication.engines.addresses import open_engine
from forebay.broker.storage.replication.engines.kafka.connection.address import parse_address
from forebay.broker.storage.replication.engines.kafka.connection.topic_log import TopicLog
from forebay.broker.storage.replication.engines.kafka.engine import KafkaEngine
from forebay.broker.storage.replication.engines.kafka.objects.index import find_indexes
from forebay.broker.storage.store.contract import Family, Put
from tests.support.calls.eventually import until
from tests.support.processes.broker import serve_command
from tests.support.storage.checkpointed import Checkpointed, content_of, follow
from tests.support.storage.engine_conformance import EngineConformance
from tests.support.storage.journals import batch_of, read_all, take_over
from tests.support.stores.journal_cases import (
    check_a_follower_serves_what_the_owner_gave_receipts_for,
    check_an_empty_disk_gets_everything_from_checkpoint_and_journal,
)
from tests.support.stores.kafka import KafkaCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    one = KafkaCluster(Path(tempfile.mkdtemp(prefix="forebay-store-")), ways=2)
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


@pytest.mark.parametrize(
    ("partitions", "replicas", "settings", "problem"),
    [
        (2, 3, {}, "it has 2 partitions, must have 1"),
        (1, 1, {"min.insync.replicas": "1"}, "it has 1 replica, must have at least 3; min.insync.replicas is 1"),
        (1, 3, {"min.insync.replicas": "1"}, "min.insync.replicas is 1, must be at least 2"),
        (1, 3, {"cleanup.policy": "compact"}, "cleanup.policy is 'compact', must be 'delete'"),
        (1, 3, {"retention.ms": "1000"}, "retention.ms is '1000', must be '-1'"),
        (1, 3, {"retention.bytes": "1000"}, "retention.bytes is '1000', must be '-1'"),
        (1, 3, {"unclean.leader.election.enable": "true"}, "unclean.leader.election.enable is 'true', must be 'false'"),
        (1, 3, {"max.message.bytes": "2000"}, "max.message.bytes is 2000, must be at least"),
    ],
)
def test_a_topic_that_could_lose_records_is_refused(
    cluster: KafkaCluster, partitions: int, replicas: int, settings: dict[str, str], problem: str
) -> None:
    name = topic()
    created_with = {"retention.ms": "-1", "min.insync.replicas": "2", **settings}
    cluster.create_topic(name, partitions, replicas, created_with)

    with pytest.raises(EngineUnsuitable) as error:
        open_engine(cluster.url(name))

    assert problem in str(error.value)


def test_an_existing_topic_is_used_as_it_is(cluster: KafkaCluster) -> None:
    name = topic()
    cluster.create_topic(name, 1, 3, {"retention.ms": "-1", "min.insync.replicas": "2"})
    engine = open_engine(cluster.url(name))

    assert engine.durability.startswith("at least 2 of 3 replicas, in memory, flush.messages is 9")


def test_a_topic_of_small_messages_takes_large_records(cluster: KafkaCluster) -> None:
    name = topic()
    settings = {"retention.ms": "-1", "min.insync.replicas": "2", "max.message.bytes": "69632"}
    cluster.create_topic(name, 1, 3, settings)
    engine, large = open_engine(cluster.url(name)), bytes(range(256)) * 8_192

    assert engine.create(0, [large])
    assert engine.read(0) == large


def test_a_topic_that_is_deleted_is_not_created_again_by_an_owner(cluster: KafkaCluster) -> None:
    name = topic()
    engine = open_engine(cluster.url(name))
    engine.create(0, [b"first"])
    cluster.delete_topic(name)

    with pytest.raises(EngineAway):
        engine.create(1, [b"second"])

    with pytest.raises(FileNotFoundError):
        open_engine(cluster.url(name), creates=False)


def test_a_topic_of_a_shard_is_created_with_a_sync_before_each_confirmation(cluster: KafkaCluster) -> None:
    with pytest.raises(FileNotFoundError, match="the topic does not exist"):
        open_engine(cluster.url("missing"), creates=False)

    engine = open_engine(cluster.url(topic()))

    assert engine.durability == "at least 2 of 3 replicas, on disk"
    assert open_engine(engine.address, creates=False).address == engine.address


def test_a_topic_is_created_once_enough_nodes_of_a_kafka_that_starts_have_registered() -> None:
    cluster = KafkaCluster(Path(tempfile.mkdtemp(prefix="forebay-store-")))
    *early, late = cluster.nodes
    try:
        for node in early:
            node.launch()
        for node in early:
            node.await_ready()
        late.launch()

        assert open_engine(cluster.url(topic())).durability == "at least 2 of 3 replicas, on disk"
    finally:
        cluster.close()


def test_a_kafka_that_does_not_answer_is_an_engine_that_is_unreachable() -> None:
    with pytest.raises(
        EngineAway, match=r"kafka://127\.0\.0\.1:1/journal: .*(refused|timed out|Transport|resolve|transport)"
    ):
        open_engine("kafka://127.0.0.1:1/journal")


def test_a_broker_whose_kafka_does_not_answer_logs_the_address_once(tmp_path: Path) -> None:
    with serve_command(tmp_path / "a", environment={"FOREBAY_JOURNAL": "kafka://127.0.0.1:1/journal"}) as broker:
        until(lambda: "journal does not answer" in broker.log.read_text(), timeout_s=30.0)
        [said] = [line for line in broker.log.read_text().splitlines() if "journal does not answer" in line]

    assert " journal=kafka://127.0.0.1:1/journal cause=" in said
    assert said.count("kafka://") == 1


def test_a_file_of_a_checkpoint_that_is_damaged_in_the_topic_is_written_again(
    cluster: KafkaCluster, tmp_path: Path
) -> None:
    address = cluster.url(topic())
    with closing(Checkpointed(open_engine(address), tmp_path / "a")) as shard:
        shard.check_point()
        reader, mark = open_engine(address), shard.newest()
        piece = next(one for one in load_manifest(reader.files(), mark).pieces if one.path.endswith(".pages"))
        reader.files().put(piece.name, [bytes(piece.stored_bytes)])
        with pytest.raises(CheckpointDamaged, match=f"{piece.path} has other bytes"):
            load(reader, mark, tmp_path / "b", Event())
        shard.store.commit([], [Put(Family.META, b"later", b"1")])

        shard.check_point()

        load(reader, shard.newest(), tmp_path / "b", Event())
        with closing(follow(reader, tmp_path / "b")) as store:
            assert content_of(store) == content_of(shard.store)
        assert reader.names(DAMAGED) == []
        assert piece.name not in reader.files().names()


def test_an_owner_continues_when_the_leader_of_the_topic_is_killed(cluster: KafkaCluster) -> None:
    name = topic()
    engine = open_engine(cluster.url(name))
    owner = take_over(engine, b"a")
    owner.append(batch_of(1))
    leader = cluster.leader(name)

    leader.kill()
    try:
        owner.append(batch_of(2))
        owner.append(batch_of(3))
    finally:
        leader.start()

    assert read_all(open_engine(cluster.url(name))) == [1, 2, 3]
    owner.close()


def test_a_follower_reads_on_when_the_leader_of_the_topic_falls_silent(cluster: KafkaCluster) -> None:
    name = topic()
    engine, other = open_engine(cluster.url(name)), open_engine(cluster.url(name))
    owner = take_over(engine, b"a")
    owner.append(batch_of(1))
    assert read_all(other) == [1]
    leader = cluster.leader(name)

    leader.pause()  # as a machine that is lost: no connection is closed
    try:
        owner.append(batch_of(2))
        until(lambda: found_by(other) == [1, 2], timeout_s=60.0)
    finally:
        leader.resume()

    owner.close()


@pytest.mark.parametrize("is_leader", [True, False], ids=["leader", "replica"])
def test_open_groups_are_confirmed_without_an_error_when_a_node_falls_silent(
    cluster: KafkaCluster, caplog: pytest.LogCaptureFixture, is_leader: bool
) -> None:
    name = topic()
    engine = open_engine(cluster.url(name))
    owner = take_over(engine, b"a")
    owner.append(batch_of(0))
    node = next(node for node in cluster.nodes if (node is cluster.leader(name)) is is_leader)

    node.pause()
    try:
        with caplog.at_level(logging.WARNING):
            groups = [owner.begin(batch_of(number)) for number in range(1, 7)]
            for group in groups:
                owner.finish(group)
    finally:
        node.resume()

    assert not caplog.records, "an append has failed, and was repeated"
    until(lambda: found_by(open_engine(cluster.url(name))) == list(range(7)))
    owner.close()


def found_by(engine: Engine) -> list[int]:
    """Return the batches that a reader finds, none while the engine does not answer."""
    try:
        return read_all(engine)
    except EngineAway:
        return []


def test_a_topic_that_was_deleted_and_created_again_is_another_one(cluster: KafkaCluster) -> None:
    name = topic()
    engine = open_engine(cluster.url(name))
    for position in range(3):
        engine.create(position, [b"old"])
    cluster.delete_topic(name)
    with pytest.raises(EngineAway):
        engine.create(100, [b"old"])  # the client may still send it to the next topic: its outcome is unknown

    other = open_engine(cluster.url(name))
    for position in range(20):
        assert other.create(position, [b"new"])

    with pytest.raises(EngineAway, match="it lost its end or was recreated"):
        engine.read(10)
    with pytest.raises(EngineAway, match="it lost its end or was recreated"):
        engine.create(20, [b"old"])
    assert other.read(20) is None


def test_garbage_is_deleted_at_the_begin_of_the_topic(cluster: KafkaCluster) -> None:
    address = parse_address(cluster.url(topic()))
    engine = KafkaEngine(address, garbage_bytes=1 << 20)
    other = KafkaEngine(address)
    owner = take_over(engine, b"a")
    for number in range(30):
        engine.create(100 + number, [b"%d" % number * 100_000])
    assert other.read(100) is not None

    engine.delete(range(100, 129))
    engine.reclaim(Event())

    assert TopicLog(address, 30.0).ends()[0] > 20
    for reader in (engine, other, KafkaEngine(address)):
        assert reader.read(129) == b"29" * 100_000
        assert [position for position, _ in reader.sizes(0, 1 << 63)] == [0, 129]
        assert read_all(reader) == []
    owner.append(batch_of(1))
    assert read_all(other) == [1]
    owner.close()


def test_a_broker_that_begins_at_an_index_finds_what_was_before_it(cluster: KafkaCluster) -> None:
    address = parse_address(cluster.url(topic()))
    engine = KafkaEngine(address, index_bytes=1 << 20)
    owner = take_over(engine, b"a")
    for number in range(300):
        owner.append(batch_of(number))
    engine.files().put("pages", [b"x" * (6 << 20)])  # of two messages, after which an index is due
    owner.append(batch_of(300))

    log = TopicLog(address, 30.0)
    assert len(list(find_indexes(log.tail.read, *log.ends()))) == 1
    late = KafkaEngine(address)

    assert read_all(late) == list(range(301))
    assert b"".join(late.files().get("pages")) == b"x" * (6 << 20)
    assert not late.create(5, [b"of a former owner"])
    owner.append(batch_of(301))
    assert read_all(late) == list(range(302))
    owner.close()


def nodes_of(servers: str) -> set[str]:
    """The addresses that the cluster advertises to the clients of some servers."""
    client = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    return {f"{node.host}:{node.port}" for node in client.list_topics(timeout=5.0).brokers.values()}


def test_a_client_of_one_way_is_cut_off_from_all_nodes_alone(cluster: KafkaCluster) -> None:
    ways = [cluster.way(number, "any")[1] for number in range(2)]
    endpoints = [{proxy.endpoint for proxy in way.proxies} for way in ways]
    servers = [",".join(each) for each in endpoints]
    assert [nodes_of(each) for each in servers] == endpoints

    ways[0].refuse()
    try:
        with pytest.raises(KafkaException):
            nodes_of(servers[0])
        assert nodes_of(servers[1]) == endpoints[1]
    finally:
        ways[0].release()

    assert nodes_of(servers[0]) == endpoints[0]


def test_a_follower_serves_what_the_owner_gave_receipts_for(cluster: KafkaCluster, tmp_path: Path) -> None:
    environment = {"FOREBAY_JOURNAL": cluster.url(topic())}

    info = check_a_follower_serves_what_the_owner_gave_receipts_for(environment, tmp_path)

    assert info.journal_durability == "at least 2 of 3 replicas, on disk"


def test_a_broker_on_an_empty_disk_gets_everything_from_checkpoint_and_journal(
    cluster: KafkaCluster, tmp_path: Path
) -> None:
    check_an_empty_disk_gets_everything_from_checkpoint_and_journal({"FOREBAY_JOURNAL": cluster.url(topic())}, tmp_path)
