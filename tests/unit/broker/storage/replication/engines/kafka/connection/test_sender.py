from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError

from forebay.broker.storage.replication.engine import EngineAway
from tests.support.storage.kafka_nodes import INIT_PRODUCER_ID, PRODUCE, KafkaNodes, appended, kafka_nodes


@pytest.fixture
def nodes() -> Iterator[KafkaNodes]:
    with kafka_nodes() as found:
        yield found


def test_a_producer_that_does_not_know_what_is_appended_is_replaced(nodes: KafkaNodes) -> None:
    log = nodes.log(10.0)
    assert appended(log, b"a") == (None, 0)
    nodes.fail(PRODUCE, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER)

    error, offset = appended(log, b"b")

    assert error is not None
    assert offset < 0
    with pytest.raises(EngineAway, match="due to sequence desynchronization"):
        appended(log, b"b")
    assert appended(log, b"b") == (None, 1)


def test_a_producer_without_the_right_to_number_its_messages_says_so_and_is_replaced(nodes: KafkaNodes) -> None:
    nodes.fail(INIT_PRODUCER_ID, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
    log = nodes.log(10.0)

    error, _ = appended(log, b"a")

    assert error is not None
    assert "Cluster authorization failed" in error
    with pytest.raises(EngineAway, match="Cluster authorization failed"):
        appended(log, b"a")
    assert appended(log, b"a") == (None, 0)
