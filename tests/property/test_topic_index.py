"""Random messages of a topic: a table from an index equals the one that was indexed, also later."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.broker.storage.replication.engines.kafka.objects.index import decode_index, encode_index
from forebay.broker.storage.replication.engines.kafka.objects.message import Header, MessageKind, encode
from forebay.broker.storage.replication.engines.kafka.objects.table import Objects

NAMES = st.sampled_from(["a", "b", "records/ü"])
SMALL = st.integers(0, 3)


def message(writer: int, kind: MessageKind, name: str, part: int, base: int, origin: int) -> Header:
    """One of the messages of a change; each writer makes one change of each kind, of up to three messages."""
    parts = 1 + writer % 3
    part %= parts
    name = "" if kind is MessageKind.DELETE else name
    return Header(kind, writer, kind.value, name, part, parts if part == parts - 1 else 0, base, origin)


MESSAGES = st.builds(message, SMALL, st.sampled_from(MessageKind), NAMES, SMALL, st.integers(0, 20), st.integers(0, 6))
STEPS = st.one_of(
    *[st.tuples(st.just("message"), MESSAGES, st.lists(NAMES, max_size=2))] * 6,
    st.tuples(st.just("other program"), st.none(), st.none()),
    st.tuples(st.just("cut"), st.integers(0, 3), st.none()),
)


def take(objects: Objects, step: Any) -> object:
    kind, found, names = step
    match kind:
        case "message":
            objects.last = objects.end, encode(found)
            return objects.take(found, 10, "\n".join(names).encode())
        case "other program":
            return objects.take(None, 7, b"")
        case _:
            objects.cut(max(objects.begin, objects.end - found))
            return None


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 9), st.lists(STEPS, max_size=12), st.lists(STEPS, max_size=12))
def test_a_table_from_an_index_takes_messages_as_the_one_that_was_indexed(
    begin: int, before: list[Any], after: list[Any]
) -> None:
    objects = Objects(begin)
    for step in before:
        take(objects, step)
    state = objects.state()
    if state is None:
        return
    index = encode_index(state)
    restored = Objects.of(decode_index(index))

    assert restored.state() == state
    for step in after:
        assert take(restored, step) == take(objects, step)
        assert restored.state() == objects.state()
        assert restored.live_bytes == objects.live_bytes
        assert restored.bytes_before(restored.end) == objects.bytes_before(objects.end)
    assert encode_index(state) == index, "a state is a copy"
