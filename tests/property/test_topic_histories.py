"""Random histories of several writers on one topic: creations, replacements, deletions, cuts, crashes, new readers.

Whatever was cut, every reader finds the same objects with the same bytes, and exactly one of several creations of one
name has succeeded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.broker.storage.replication.engine import EngineAway
from forebay.broker.storage.replication.engines.kafka.store import TopicStore
from tests.support.storage.topic_log import MemoryLog, MemoryTopic

WRITERS = 3
PART_BYTES = 4
GARBAGE_BYTES = 16
NAMES = st.sampled_from(["records/1", "records/2", "files/a", "named/marks/1"])
CONTENTS = st.binary(max_size=3 * PART_BYTES)
SIMPLE = st.one_of(
    st.tuples(st.just("create"), NAMES, CONTENTS),
    st.tuples(st.just("put"), NAMES, CONTENTS),
    st.tuples(st.just("delete"), st.lists(NAMES, min_size=1, max_size=3), st.none()),
    st.tuples(st.just("reclaim"), st.none(), st.none()),
    st.tuples(st.just("read"), NAMES, st.none()),
    st.tuples(st.just("reopen"), st.none(), st.none()),
    st.tuples(st.just("foreign"), st.none(), CONTENTS),
)
STEPS = st.tuples(
    st.integers(0, WRITERS - 1),
    SIMPLE,
    st.sampled_from(["plain", "plain", "plain", "twice", "lost", "refused", "crash", "amid"]),
    st.lists(st.tuples(st.integers(0, WRITERS - 1), SIMPLE), max_size=3),
)


class Crashed(Exception):
    """The writer is gone."""


@dataclass
class Histories:
    """Writers of one topic, and the objects that all of them should find."""

    topic: MemoryTopic = field(default_factory=MemoryTopic)
    objects: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.stores = [self.opened() for _ in range(WRITERS)]

    def opened(self) -> TopicStore:
        return TopicStore(
            MemoryLog(self.topic), "memory", PART_BYTES, garbage_bytes=GARBAGE_BYTES, abandoned_s=0.0, timeout_s=0.05
        )

    def step(self, writer: int, simple: tuple, fault: str, amid: list) -> None:
        self.topic.twice = fault == "twice"
        self.topic.lost_answers, self.topic.refused = int(fault == "lost"), int(fault == "refused")
        try:
            self.do(writer, simple, "crash" if fault == "crash" else "", amid if fault == "amid" else [])
        except (EngineAway, Crashed):
            # It may have taken effect. A reader that begins now tells; all others have to agree.
            self.objects = contents(self.opened())
        finally:
            self.topic.twice, self.topic.lost_answers, self.topic.refused = False, 0, 0

    def do(self, writer: int, simple: tuple, fault: str, amid: list) -> None:
        """Do one step; others do theirs between its parts."""
        store, (verb, name, content) = self.stores[writer], simple

        def pieces() -> Iterator[bytes]:
            yield content[: PART_BYTES + 1]
            for other, its in amid:
                self.do(other, its, "", [])
            if fault == "crash":
                raise Crashed
            yield content[PART_BYTES + 1 :]

        match verb:
            case "create":
                created = store.create(name, list(pieces()) if not amid and not fault else pieces())
                assert created is (name not in self.objects)
                self.objects.setdefault(name, content)
            case "put":
                store.put(name, pieces())
                self.objects[name] = content
            case "delete":
                store.delete(name)
                for one in name:
                    self.objects.pop(one, None)
            case "reclaim":
                store.reclaim()
            case "read":
                found = store.find(name)
                assert (b"".join(store.parts(found)) if found is not None else None) == self.objects.get(name)
            case "reopen":
                self.stores[writer] = self.opened()
            case "foreign":
                self.topic.add(None, content)

    def check(self) -> None:
        for store in (*self.stores, self.opened()):
            assert contents(store) == self.objects


def contents(store: TopicStore) -> dict[str, bytes]:
    return {found.name: b"".join(store.parts(found)) for found in store.below("")}


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=30))
def test_every_reader_finds_the_same_objects(steps: list) -> None:
    histories = Histories()
    for step in steps:
        histories.step(*step)
        histories.check()
