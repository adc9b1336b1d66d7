from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
from confluent_kafka import KafkaError, KafkaException

from forebay.broker.storage.replication.engine import EngineAway, EngineRefused
from forebay.broker.storage.replication.engines.kafka.connection.access import ConnectionEnded
from tests.support.storage.kafka_nodes import FETCH, LIST_OFFSETS, PRODUCE, KafkaNodes, appended, kafka_nodes


@pytest.fixture
def nodes() -> Iterator[KafkaNodes]:
    with kafka_nodes() as found:
        yield found


def test_messages_are_appended_and_read_by_their_offsets(nodes: KafkaNodes) -> None:
    log = nodes.log(10.0)

    assert [appended(log, value) for value in (b"a", b"b")] == [(None, 0), (None, 1)]

    assert log.ends() == (0, 2)
    assert [(found.offset, found.value) for found in log.tail.read(1)] == [(1, b"b")]


def test_the_ends_are_those_of_the_next_leader_where_the_former_one_falls_silent(nodes: KafkaNodes) -> None:
    log, other = nodes.log(9.0), nodes.log(9.0)
    appended(log, b"a")
    assert other.ends() == (0, 1)

    nodes.silence(1)
    nodes.lead(2)

    assert other.ends() == (0, 1)


def test_the_ends_are_those_of_the_next_leader_where_the_former_one_refuses_connections(nodes: KafkaNodes) -> None:
    log, other = nodes.log(9.0), nodes.log(9.0)
    appended(log, b"a")
    assert other.ends() == (0, 1)

    nodes.stop(1)
    nodes.lead(2)

    with suppress(EngineAway):  # by the connection that was refused
        other.ends()
    assert other.ends() == (0, 1)


def test_a_cursor_reads_on_from_the_next_leader_where_the_former_one_falls_silent(nodes: KafkaNodes) -> None:
    log, other = nodes.log(60.0), nodes.log(40.0)
    appended(log, b"a")
    assert other.tail.read(0)

    nodes.silence(1)
    nodes.lead(2)
    appended(nodes.log(60.0), b"b")

    assert [found.value for found in other.tail.read(1)] == [b"b"]


def test_a_message_is_confirmed_by_the_next_leader_where_the_former_one_falls_silent(nodes: KafkaNodes) -> None:
    log = nodes.log(60.0)
    appended(log, b"a")

    nodes.silence(1)
    nodes.lead(2)

    error, offset = appended(log, b"b")
    assert error is None
    assert log.ends() == (0, offset + 1)


@pytest.mark.parametrize("asked", [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE])
def test_the_ends_are_asked_for_again_while_the_leader_changes(nodes: KafkaNodes, asked: int) -> None:
    log = nodes.log(10.0)
    appended(log, b"a")
    nodes.fail(LIST_OFFSETS, asked, asked)

    assert log.ends() == (0, 1)


def test_a_reader_without_the_right_to_read_says_so(nodes: KafkaNodes) -> None:
    log, other = nodes.log(10.0), nodes.log(1.0)
    appended(log, b"a")
    nodes.fail(FETCH, *[KafkaError.TOPIC_AUTHORIZATION_FAILED] * 1_000)

    with pytest.raises(EngineRefused, match="authorization failed: the user of the journal has no right Read"):
        other.tail.read(0)


def test_a_reader_reads_on_once_it_has_the_right_again(nodes: KafkaNodes) -> None:
    log, other = nodes.log(10.0), nodes.log(20.0)
    appended(log, b"a")
    nodes.fail(FETCH, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(EngineRefused):
        other.tail.read(0)

    assert [found.value for found in other.tail.read(0)] == [b"a"]


def test_a_writer_without_the_right_to_write_says_so(nodes: KafkaNodes) -> None:
    log = nodes.log(10.0)
    nodes.fail(PRODUCE, KafkaError.TOPIC_AUTHORIZATION_FAILED)

    error, _ = appended(log, b"a")

    assert error is not None
    assert "the user of the journal has no right Write on the topic" in error
    assert isinstance(log.away(error), EngineRefused)


def test_nodes_that_end_connections_are_not_said_to_want_another_protocol_once_they_have_answered(
    nodes: KafkaNodes,
) -> None:
    log = nodes.log(9.0)
    ended = KafkaException(KafkaError(KafkaError._TRANSPORT, "Broken pipe"))
    assert isinstance(log.unanswered(ended), ConnectionEnded)
    assert "wants a login or TLS ends such a connection" in str(log.unanswered(ended))

    appended(log, b"a")

    assert not isinstance(log.unanswered(ended), ConnectionEnded)
    assert str(log.unanswered(ended)).endswith(": Broken pipe")
