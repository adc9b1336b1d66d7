from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Event

import pytest
from confluent_kafka import KafkaError, KafkaException

from forebay.broker.storage.replication.engine import EngineAway, EngineRefused
from forebay.broker.storage.replication.engines.kafka.access import ConnectionEnded
from forebay.broker.storage.replication.engines.kafka.client import Readers, Trouble
from forebay.broker.storage.replication.engines.kafka.log import LogMessage, OffsetsGone
from tests.support.storage.kafka_nodes import FETCH, LIST_OFFSETS, PRODUCE, KafkaNodes, appended, kafka_nodes
from tests.support.storage.topic_log import MemoryCursor, MemoryTopic


class WaitingCursor(MemoryCursor):
    """One that notes where it reads, and waits before it does."""

    def __init__(self, topic: MemoryTopic) -> None:
        super().__init__(topic, 3)
        self.places = list[int]()
        self.began, self.goes_on = Event(), Event()
        self.goes_on.set()

    def read(self, offset: int) -> list[LogMessage]:
        self.places.append(offset)
        self.began.set()
        assert self.goes_on.wait(30.0)
        return super().read(offset)


class Reading:
    """Readers of a topic of 100 messages, and the cursors that they have made."""

    def __init__(self, places_max: int = 4) -> None:
        self.topic = MemoryTopic()
        for number in range(100):
            self.topic.add(None, b"%d" % number)
        self.cursors = list[WaitingCursor]()
        self.now = 0.0
        self.readers = Readers(self._made, places_max, lambda: self.now)

    def _made(self) -> WaitingCursor:
        self.cursors.append(WaitingCursor(self.topic))
        return self.cursors[-1]

    def offsets(self, offset: int, *, is_known: bool = False) -> list[int] | None:
        """Return the offsets of what is read."""
        found = self.readers.read(offset, lambda: is_known)
        return None if found is None else [one.offset for one in found]

    @property
    def places(self) -> list[list[int]]:
        """Places at which each cursor has read."""
        return [cursor.places for cursor in self.cursors]


def test_a_reader_does_not_wait_for_one_at_another_place() -> None:
    reading = Reading()
    reading.offsets(0)
    first = reading.cursors[0]
    first.began.clear()
    first.goes_on.clear()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(reading.offsets, 3)
        assert first.began.wait(30.0)

        assert reading.offsets(50) == [50, 51, 52]

        assert not waiting.done()
        first.goes_on.set()
        assert waiting.result(30.0) == [3, 4, 5]


def test_a_reader_near_another_one_waits_and_reads_nothing_that_is_known_then() -> None:
    reading = Reading()
    reading.offsets(0)
    first, asked = reading.cursors[0], list[bool]()
    first.began.clear()
    first.goes_on.clear()

    def is_known() -> bool:
        asked.append(first.goes_on.is_set())
        return True

    with ThreadPoolExecutor(2) as pool:
        reads = pool.submit(reading.offsets, 3)
        assert first.began.wait(30.0)
        waits = pool.submit(reading.readers.read, 5, is_known)
        first.goes_on.set()
        assert reads.result(30.0) == [3, 4, 5]
        assert waits.result(30.0) is None

    assert asked == [True]
    assert reading.places[0] == [0, 3]


def test_readers_of_two_places_in_turn_move_no_cursor() -> None:
    reading = Reading()

    for step in range(3):
        assert reading.offsets(3 * step) == [3 * step, 3 * step + 1, 3 * step + 2]
        assert reading.offsets(50 + 3 * step)

    assert reading.places == [[0, 3, 6], [50, 53, 56]]


def test_a_message_a_little_further_is_reached_by_reading_on() -> None:
    reading = Reading()
    reading.offsets(0)

    assert reading.offsets(7) == [3, 4, 5, 6, 7, 8]
    assert reading.places == [[0, 3, 6]]


def test_there_are_no_more_cursors_than_places_and_the_one_that_was_not_used_for_longest_is_moved() -> None:
    reading = Reading(2)
    for offset in (0, 50, 3):
        reading.now += 0.1
        reading.offsets(offset)

    reading.offsets(80)

    assert reading.places == [[0, 3], [50, 80]]


def test_a_place_that_is_not_used_any_more_is_moved_before_there_is_another_one() -> None:
    reading = Reading()
    reading.offsets(0)
    reading.now += 2.0

    reading.offsets(50)

    assert reading.places == [[0, 50]]


def test_a_place_whose_read_has_failed_is_moved_by_the_next_one() -> None:
    reading = Reading(1)
    reading.offsets(0)
    reading.topic.cut(5)
    with pytest.raises(OffsetsGone):
        reading.offsets(4)

    assert reading.offsets(6) == [6, 7, 8]


@pytest.fixture
def nodes() -> Iterator[KafkaNodes]:
    with kafka_nodes() as found:
        yield found


def test_an_error_of_the_client_is_a_part_of_messages_while_it_is_recent() -> None:
    now = [100.0]
    trouble = Trouble(30.0, lambda: now[0])
    assert trouble.text() == ""

    trouble.note(KafkaError(KafkaError._TRANSPORT, "connection refused"))

    assert trouble.text() == " (connection refused)"
    now[0] = 130.5
    assert trouble.text() == ""


def test_errors_that_explain_nothing_do_not_replace_one_that_does() -> None:
    trouble = Trouble(30.0)
    trouble.note(KafkaError(KafkaError._AUTHENTICATION, "the password is wrong"))

    trouble.note(KafkaError(KafkaError._ALL_BROKERS_DOWN, "all are down"))
    trouble.note(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED, "no right on the group"))

    assert "the password is wrong; check" in trouble.text()
    assert trouble.text("it failed: the password is wrong") == ""


def test_a_confirmation_while_the_message_of_an_error_is_worded_does_not_disturb_it() -> None:
    confirmed = list[Trouble]()

    def clock() -> float:
        for one in confirmed:
            one.clear()
        return 100.0

    trouble = Trouble(30.0, clock)
    trouble.note(KafkaError(KafkaError._TRANSPORT, "connection refused"))
    confirmed.append(trouble)

    assert trouble.text() == " (connection refused)"


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
