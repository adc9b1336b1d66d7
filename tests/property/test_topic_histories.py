"""Random histories of several writers on one topic: creations, replacements, deletions, cuts, crashes, late messages.

Whatever was cut, and from whichever index it begins, every reader finds the same objects with the same bytes, and
exactly one of several creations of one name has succeeded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.broker.storage.replication.engine import EngineAway
from forebay.broker.storage.replication.engines.kafka.objects.index import INDEX
from forebay.broker.storage.replication.engines.kafka.objects.message import decode
from forebay.broker.storage.replication.engines.kafka.objects.store import TopicStore
from forebay.broker.storage.replication.engines.kafka.objects.table import Objects
from tests.support.storage.topic_log import MemoryLog, MemoryTopic, reclaim

Simple: TypeAlias = tuple[str, Any, Any]
WRITERS = 3
PART_BYTES = 4
GARBAGE_BYTES = 1
NAMES = st.sampled_from(["records/1", "records/2", "files/a", "named/marks/1"])
CONTENTS = st.binary(min_size=PART_BYTES, max_size=3 * PART_BYTES)
SIMPLE = st.one_of(
    st.tuples(st.just("create"), NAMES, CONTENTS),
    st.tuples(st.just("put"), NAMES, CONTENTS),
    st.tuples(st.just("delete"), st.lists(NAMES, min_size=1, max_size=3), st.none()),
    *[st.tuples(st.just("reclaim"), st.none(), st.none())] * 2,
    st.tuples(st.just("index"), st.none(), st.none()),
    st.tuples(st.just("read"), NAMES, st.none()),
    st.tuples(st.just("reopen"), st.none(), st.none()),
    st.tuples(st.just("foreign"), st.none(), CONTENTS),
    st.tuples(st.just("release"), st.none(), st.none()),
)
STEPS = st.tuples(
    st.integers(0, WRITERS - 1),
    SIMPLE,
    st.sampled_from(["plain", "plain", "twice", "lost", "refused", "held", "crash", "amid", "amid"]),
    st.lists(st.tuples(st.integers(0, WRITERS - 1), SIMPLE), max_size=4),
)


class Crashed(Exception):
    """The writer is gone."""


@dataclass
class Histories:
    """Writers of one topic, and the objects that all of them should find."""

    topic: MemoryTopic = field(default_factory=MemoryTopic)
    objects: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.logs = [MemoryLog(self.topic) for _ in range(WRITERS)]
        self.stores = [opened(log) for log in self.logs]

    def step(self, writer: int, simple: Simple, fault: str, amid: list[tuple[int, Simple]]) -> None:
        self.topic.twice = fault == "twice"
        self.topic.lost_answers, self.topic.refused = int(fault == "lost"), int(fault == "refused")
        self.topic.held = int(fault == "held")
        waiting = list(amid) if fault == "amid" else []

        def between() -> None:
            if waiting:
                self.do(*waiting.pop(), "")

        self.logs[writer].between = between
        before = dict(self.objects)
        try:
            self.do(writer, simple, fault)
        except (EngineAway, Crashed):
            pass
        finally:
            self.logs[writer].between = lambda: None
            self.topic.twice, self.topic.lost_answers, self.topic.refused, self.topic.held = False, 0, 0, 0
        self.objects = uncut(self.topic)
        if fault in {"plain", "twice"} and simple[0] != "release":
            assert self.objects == after(before, simple)

    def do(self, writer: int, simple: Simple, fault: str) -> None:
        """Do one step."""
        store, (verb, name, content) = self.stores[writer], simple

        def pieces() -> Iterator[bytes]:
            yield content[: PART_BYTES + 1]
            if fault == "crash":
                raise Crashed
            yield content[PART_BYTES + 1 :]

        match verb:
            case "create":
                created = store.create(name, list(pieces()))
                assert fault not in {"plain", "twice"} or created is (name not in self.objects)
            case "put":
                store.put(name, pieces())
            case "delete":
                store.delete(name)
            case "reclaim":
                reclaim(store, GARBAGE_BYTES)
            case "index":
                store.write_index()
            case "read":
                found = store.find(name)
                if fault:  # all others are still
                    assert (b"".join(store.parts(found)) if found is not None else None) == self.objects.get(name)
            case "reopen":
                self.stores[writer] = opened(self.logs[writer])
            case "release":
                self.topic.release()
            case "foreign":
                self.topic.add(None, content)

    def check(self) -> None:
        for store in (*self.stores, opened(MemoryLog(self.topic))):
            assert contents(store) == self.objects


def opened(log: MemoryLog) -> TopicStore:
    return TopicStore(log, "memory", PART_BYTES, timeout_s=0.05)


def uncut(topic: MemoryTopic) -> dict[str, bytes]:
    """The objects by all messages that there have ever been."""
    objects = Objects(0)
    for _, key, value in topic.uncut:
        objects.take(decode(key), len(value), value)
    return {
        found.name: b"".join(topic.uncut[offset].value for offset in found.offsets)
        for found in objects.below("")
        if found.name != INDEX
    }


def after(objects: dict[str, bytes], simple: Simple) -> dict[str, bytes]:
    """The objects after a step that no other one overlaps."""
    verb, name, content = simple
    match verb:
        case "create":
            return {name: content, **objects}
        case "put":
            return {**objects, name: content}
        case "delete":
            return {one: found for one, found in objects.items() if one not in name}
    return objects


def contents(store: TopicStore) -> dict[str, bytes]:
    return {found.name: b"".join(store.parts(found)) for found in store.below("") if found.name != INDEX}


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=30))
def test_every_reader_finds_the_same_objects(steps: list[Any]) -> None:
    histories = Histories()
    for step in steps:
        histories.step(*step)
        histories.check()
