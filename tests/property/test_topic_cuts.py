"""Random cuts of a topic, complete, interrupted and late: readers that begin at any base find the same objects."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.broker.storage.replication.engines.kafka.objects.carrying import best_cut
from forebay.broker.storage.replication.engines.kafka.objects.message import Header, MessageKind
from forebay.broker.storage.replication.engines.kafka.objects.table import Objects

NAMES = st.sampled_from("abcd")
CHANGES = st.one_of(
    st.tuples(st.just("create"), NAMES, st.integers(1, 9)),
    st.tuples(st.just("put"), NAMES, st.integers(1, 9)),
    st.tuples(st.just("delete"), NAMES, st.none()),
)
CARRY = st.sampled_from(["carry", "carry", "carry", "late", "left out"])
STEPS = st.one_of(
    *[CHANGES] * 4,
    st.tuples(st.just("cut"), st.lists(st.tuples(CARRY, st.lists(CHANGES, max_size=2)), max_size=4), st.none()),
    st.tuples(st.just("arrive"), st.none(), st.none()),
)
GARBAGE_BYTES = 1


@dataclass
class Topic:
    """Messages with the content of each, by offset, and the table of a reader that has read them all."""

    messages: list[tuple[Header, int, int]] = field(default_factory=list)
    """Header, size, and the offset whose content it repeats, which is its own but for a carry."""

    begin: int = 0
    live: Objects = field(default_factory=lambda: Objects(0))
    late: list[tuple[Header, int, int]] = field(default_factory=list)
    contents: dict[str, int] = field(default_factory=dict)
    """Contents by name, however often they were carried."""

    def append(self, header: Header, size: int, content: int) -> None:
        self.messages.append((header, size, content))
        take(self.live, header, size)

    def change(self, kind: str, name: str, size: int | None) -> None:
        number = len(self.messages)
        match kind:
            case "create":
                self.contents.setdefault(name, number)
            case "put":
                self.contents[name] = number
            case _:
                self.contents.pop(name, None)
        if kind == "delete":
            self.append(Header(MessageKind.DELETE, 1, number, name), 1, number)
        else:
            self.append(Header(MessageKind[kind.upper()], 1, number, name), size or 1, number)

    def repeat(self, header: Header, size: int, content: int) -> None:
        self.append(replace(header, number=len(self.messages)), size, content)

    def cut(self, carries: list[tuple[str, list[Any]]]) -> None:
        """Carry what is in the way, some of it not or late and others writing meanwhile, and cut if nothing is left."""
        cut = best_cut(self.live, garbage_bytes=GARBAGE_BYTES)
        if cut is None:
            return
        for at, found in enumerate(cut.carried):
            how, meanwhile = carries[at] if at < len(carries) else ("carry", [])
            header = Header(MessageKind.CARRY, 2, 0, found.name, base=cut.base, origin=found.origin)
            carried = (header, found.size, self.content_of(found.offsets[0]))
            for change in meanwhile:
                self.change(*change)
            if how == "carry":
                self.repeat(*carried)
            elif how == "late":
                self.late.append(carried)
        if self.live.lowest() >= cut.base:
            self.begin = cut.base
            self.live.cut(cut.base)

    def arrive(self) -> None:
        late, self.late = self.late, []
        for header, size, content in late:
            self.repeat(header, size, content)

    def content_of(self, offset: int) -> int:
        return self.messages[offset][2]

    def objects(self, reader: Objects) -> dict[str, tuple[int, int]]:
        return {found.name: (found.origin, self.content_of(found.offsets[0])) for found in reader.all()}

    def check(self) -> None:
        """A reader that begins now finds what the one finds that has read everything."""
        late = Objects(self.begin)
        for header, size, _ in self.messages[self.begin :]:
            take(late, header, size)
        assert self.objects(late) == self.objects(self.live)
        assert {name: content for name, (_, content) in self.objects(late).items()} == self.contents
        assert all(found.first >= self.begin for found in late.all())


def take(objects: Objects, header: Header, size: int) -> None:
    objects.take(header, size, header.name.encode())


@settings(max_examples=800, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_a_reader_from_any_base_finds_what_all_others_find(steps: list[Any]) -> None:
    topic = Topic()
    for kind, what, size in steps:
        match kind:
            case "cut":
                topic.cut(what)
            case "arrive":
                topic.arrive()
            case _:
                topic.change(kind, what, size)
        topic.check()
