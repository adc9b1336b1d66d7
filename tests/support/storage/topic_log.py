"""Log of a topic in memory, shared by the writers of a test."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event

from forebay.broker.storage.replication.engine import EngineAway
from forebay.broker.storage.replication.engines.kafka.objects.log import Delivered, LogMessage, OffsetsGone
from forebay.broker.storage.replication.engines.kafka.objects.reclaiming import Reclaiming
from forebay.broker.storage.replication.engines.kafka.objects.store import TopicStore


@dataclass
class MemoryTopic:
    """Messages of one partition, from ``begin`` on."""

    begin: int = 0
    messages: list[LogMessage] = field(default_factory=list)
    twice: bool = False
    """True while each message is appended twice, as a client does that has lost an answer."""
    lost_answers: int = 0
    """Number of next messages that are appended, and reported as failed."""
    unknown_offsets: int = 0
    """Number of next messages that are confirmed without their offset."""
    refused: int = 0
    """Number of next messages that are not appended."""
    held: int = 0
    """Number of next messages that are reported as failed, and appended by ``release``."""
    late: list[tuple[bytes, bytes]] = field(default_factory=list)
    """Keys and values of the messages that are held."""
    uncut: list[LogMessage] = field(default_factory=list)
    """All messages from offset 0 on."""

    @property
    def end(self) -> int:
        return self.messages[-1].offset + 1 if self.messages else self.begin

    def add(self, key: bytes | None, value: bytes) -> int:
        """Append a message; returns its offset."""
        message = LogMessage(self.end, key, value)
        self.messages.append(message)
        self.uncut.append(message)
        return message.offset

    def release(self) -> None:
        """Append what is held: the network was slow, or a process asleep."""
        late, self.late = self.late, []
        for key, value in late:
            self.add(key, value)

    def lose(self, count: int) -> None:
        """Lose the last messages, as with the power of all nodes that did not sync them."""
        del self.messages[-count:]

    def cut(self, offset: int) -> None:
        """Delete the messages below an offset."""
        if offset > self.begin:
            self.messages[:] = [message for message in self.messages if message.offset >= offset]
            self.begin = offset


class MemoryCursor:
    """A ``LogCursor``, which returns few messages at once."""

    def __init__(self, topic: MemoryTopic, at_once: int) -> None:
        self._topic = topic
        self._at_once = at_once
        self.offsets: list[int] = []
        """Those of its reads, in order."""
        self.ahead: list[LogMessage] = []
        """Messages that were fetched before they were asked for, and perhaps deleted since."""

    def read(self, offset: int) -> list[LogMessage]:
        self.offsets.append(offset)
        if self.ahead and self.ahead[0].offset == offset:
            found, self.ahead = self.ahead[: self._at_once], self.ahead[self._at_once :]
            return found
        if not self._topic.begin <= offset <= self._topic.end:
            raise OffsetsGone(f"{offset} is not in {self._topic.begin} to {self._topic.end}")
        return [message for message in self._topic.messages if message.offset >= offset][: self._at_once]

    @property
    def reads(self) -> int:
        return len(self.offsets)

    def close(self) -> None:
        """Nothing is open."""


class MemoryLog:
    """A ``Log`` of one writer. Messages are confirmed at once."""

    def __init__(self, topic: MemoryTopic, *, at_once: int = 3) -> None:
        self.topic = topic
        self.tail = MemoryCursor(topic, at_once)
        self.reader = MemoryCursor(topic, at_once)
        self.silent = False
        """True while no message is confirmed."""
        self.between: Callable[[], None] = lambda: None
        """Called after each message, and before the first ones are deleted: others write meanwhile."""
        self.answering: Callable[[], None] = lambda: None
        """Called while the ends are on their way back: they are of the time before."""

    def read(self, offset: int, is_known: Callable[[], bool]) -> list[LogMessage] | None:
        return None if is_known() else self.reader.read(offset)

    def ends(self) -> tuple[int, int]:
        ends = self.topic.begin, self.topic.end
        self.answering()
        return ends

    def append(self, key: bytes, value: bytes, delivered: Delivered) -> None:
        if self.silent:
            return
        topic = self.topic
        if topic.refused:
            topic.refused -= 1
            delivered("it was refused", -1)
            return
        if topic.held:
            topic.held -= 1
            topic.late.append((key, value))
            delivered("no answer", -1)
            return
        offset = topic.add(key, value)
        if topic.twice:
            topic.add(key, value)
        if topic.lost_answers:
            topic.lost_answers -= 1
            delivered("the answer was lost", -1)
        elif topic.unknown_offsets:
            topic.unknown_offsets -= 1
            delivered(None, -1)
        else:
            delivered(None, offset)
        self.between()

    def delete_before(self, offset: int) -> None:
        self.between()
        self.topic.cut(offset)

    def away(self, what: str) -> EngineAway:
        return EngineAway(f"memory: {what}")


def opened(
    topic: MemoryTopic,
    part_bytes: int = 8,
    *,
    index_bytes: int = 1 << 20,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[TopicStore, MemoryLog]:
    """Open a store of a topic, with small messages and a short time limit."""
    log = MemoryLog(topic)
    return TopicStore(log, "topic", part_bytes, index_bytes=index_bytes, timeout_s=0.05, clock=clock), log


def content_of(store: TopicStore, name: str) -> bytes | None:
    """Content of an object, None for a missing one."""
    found = store.find(name)
    return b"".join(store.parts(found)) if found is not None else None


def reclaim(store: TopicStore, garbage_bytes: int = 1) -> int:
    """Reclaim what is worth it; a change that is not complete counts as abandoned at once."""
    return Reclaiming(store, garbage_bytes=garbage_bytes, abandoned_s=0.0).run(Event())
