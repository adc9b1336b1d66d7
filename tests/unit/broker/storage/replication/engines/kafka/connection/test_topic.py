from __future__ import annotations

from math import ceil

import pytest

from forebay.broker.storage.replication.engine import EngineUnsuitable
from forebay.broker.storage.replication.engines.kafka.connection.address import KafkaAddress
from forebay.broker.storage.replication.engines.kafka.connection.topic import CREATED_WITH, MESSAGE_BYTES, checked
from forebay.broker.storage.replication.owner import CHUNK_BYTES
from forebay.broker.storage.replication.record import HEADER_BYTES

ADDRESS = KafkaAddress("a:9092", "journal")
OF_REDPANDA = {
    name: value
    for name, value in CREATED_WITH.items()
    if name not in {"min.insync.replicas", "unclean.leader.election.enable", "flush.messages"}
} | {"write.caching": "false"}
"""As Redpanda describes a topic: it ignores the settings that it does not know."""


def test_a_topic_as_it_is_created_is_durable_on_the_disks_of_two_replicas() -> None:
    assert checked(ADDRESS, 1, 3, CREATED_WITH).durability == "at least 2 of 3 replicas, on disk"
    found = checked(ADDRESS, 1, 3, CREATED_WITH | {"flush.messages": "9223372036854775807"})
    assert found.durability == "at least 2 of 3 replicas, in memory, flush.messages is 9223372036854775807"


@pytest.mark.parametrize(("replicas", "majority"), [(3, 2), (5, 3)])
def test_a_topic_of_redpanda_is_durable_on_the_disks_of_a_majority(replicas: int, majority: int) -> None:
    durable = f"at least {majority} of {replicas} replicas, on disk"

    assert checked(ADDRESS, 1, replicas, OF_REDPANDA).durability == durable
    assert checked(ADDRESS, 1, replicas, OF_REDPANDA | {"write.caching": "disabled"}).durability == durable


def test_a_topic_of_redpanda_with_write_caching_is_in_the_memory_of_a_majority() -> None:
    found = checked(ADDRESS, 1, 3, OF_REDPANDA | {"write.caching": "true"})

    assert found.durability == "at least 2 of 3 replicas, in memory, write.caching is true"


@pytest.mark.parametrize("of", [CREATED_WITH, OF_REDPANDA], ids=["kafka", "redpanda"])
@pytest.mark.parametrize(
    ("changed", "partitions", "replicas", "problem"),
    [
        ({"retention.ms": "604800000"}, 1, 3, "retention.ms is '604800000', must be '-1'"),
        ({"cleanup.policy": "compact"}, 1, 3, "cleanup.policy is 'compact', must be 'delete'"),
        ({"max.message.bytes": "1000"}, 1, 3, "max.message.bytes is 1000, must be at least 69632"),
        ({}, 2, 3, "it has 2 partitions, must have 1"),
        ({}, 1, 1, "it has 1 replica, must have at least 3"),
    ],
)
def test_a_topic_that_could_lose_records_is_refused(
    of: dict[str, str], changed: dict[str, str], partitions: int, replicas: int, problem: str
) -> None:
    with pytest.raises(EngineUnsuitable, match=f"could lose records: {problem}$"):
        checked(ADDRESS, partitions, replicas, of | changed)


def test_a_topic_of_kafka_is_refused_where_one_replica_confirms_or_an_old_one_may_lead() -> None:
    with pytest.raises(EngineUnsuitable, match=r"unclean.leader.election.enable is 'true'.*; min.insync.replicas is 1"):
        checked(ADDRESS, 1, 3, CREATED_WITH | {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"})


def test_the_largest_record_of_a_journal_takes_two_messages() -> None:
    assert ceil((HEADER_BYTES + CHUNK_BYTES) / MESSAGE_BYTES) == 2
