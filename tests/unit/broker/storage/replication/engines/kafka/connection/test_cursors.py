from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from forebay.broker.storage.replication.engines.kafka.connection.cursors import Readers
from forebay.broker.storage.replication.engines.kafka.objects.log import LogMessage, OffsetsGone
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
