from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterator

import pytest

from forebay.broker.storage.records.json_line import decode_line, encode_line
from forebay.broker.storage.replication.engines.kafka.objects.index import (
    INDEX,
    IndexDamaged,
    decode_index,
    encode_index,
    find_indexes,
)
from forebay.broker.storage.replication.engines.kafka.objects.log import LogMessage
from forebay.broker.storage.replication.engines.kafka.objects.message import Header, MessageKind, encode
from forebay.broker.storage.replication.engines.kafka.objects.table import Incomplete, StoredObject, TableState

STATE = TableState(
    begin=5,
    base=4,
    sizes=array("I", [10, 0, 1 << 20]),
    objects=[StoredObject("records/1", 5, (5, 7), 12, b"begin"), StoredObject("", 6, (), 0, b"")],
    changed={"files/ä": 6},
    incomplete={
        (1 << 63, 7): Incomplete({2: 5, 0: 6}, 0, 9, b"", {2: b"", 0: b"name"}),
        (1, 0): Incomplete({0: 7}, 2, 4, b"start"),
    },
    carries={4: 6, 3: 5},
    last=(7, b"key"),
)


def index_at(first: int, *values: bytes, name: str = INDEX, parts: int | None = None) -> list[LogMessage]:
    count = len(values) if parts is None else parts
    return [
        LogMessage(
            first + part,
            encode(Header(MessageKind.PUT, 1, first, name, part, count if part == count - 1 else 0)),
            value,
        )
        for part, value in enumerate(values)
    ]


class Topic:
    """Messages, and the offsets from which they were read."""

    def __init__(self, *messages: LogMessage) -> None:
        self.messages = messages
        self.read_at: list[int] = []

    def read(self, offset: int) -> list[LogMessage]:
        self.read_at.append(offset)
        return [message for message in self.messages if message.offset >= offset][:3]

    def found(self, begin: int = 0) -> bytes | None:
        return next(self.all(begin), None)

    def all(self, begin: int = 0) -> Iterator[bytes]:
        return find_indexes(self.read, begin, self.messages[-1].offset + 1)


def others(first: int, count: int) -> list[LogMessage]:
    return [LogMessage(first + number, None, b"other") for number in range(count)]


def test_a_state_is_read_back_from_its_index() -> None:
    assert decode_index(encode_index(STATE)) == STATE


def test_an_index_of_nothing_is_read_back() -> None:
    empty = TableState(3, 3, array("I"), [], {}, {}, {}, (2, b"key"))

    assert decode_index(encode_index(empty)) == empty


@pytest.mark.parametrize("damaged", [b"", b"FBX1", zlib.compress(b""), zlib.compress(b"no document")])
def test_bytes_that_are_no_index_are_damaged(damaged: bytes) -> None:
    with pytest.raises(IndexDamaged):
        decode_index(damaged)


def test_each_damaged_byte_of_an_index_is_found() -> None:
    content = encode_index(STATE)

    for at in range(len(content)):
        with pytest.raises(IndexDamaged):
            decode_index(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])


def test_the_newest_index_that_is_complete_is_found() -> None:
    topic = Topic(
        *others(0, 2_000),
        *index_at(2_000, b"old"),
        *index_at(2_001, b"new", b"er"),
        *others(2_003, 300),
        *index_at(2_303, b"incomplete", parts=2),
    )

    assert topic.found() == b"newer"
    assert min(topic.read_at) > 1_000


@pytest.mark.parametrize(
    ("name", "value"),
    [("begin", ...), ("sizes", [-1]), ("sizes", 7), ("objects", {"name": ["a"]}), ("changed", [1]), ("last", [7])],
)
def test_a_document_that_is_no_table_is_damaged_though_its_checksum_is_right(name: str, value: object) -> None:
    document = decode_line(zlib.decompress(encode_index(STATE)))
    assert document is not None
    document[name] = value
    if value is ...:
        del document[name]

    with pytest.raises(IndexDamaged, match="it has no table"):
        decode_index(zlib.compress(encode_line(document)))


def test_older_indexes_are_found_after_the_newest() -> None:
    topic = Topic(*index_at(0, b"oldest"), *others(1, 300), *index_at(301, b"old"), *index_at(302, b"new"))

    assert list(topic.all()) == [b"new", b"old", b"oldest"]


def test_a_search_ends_after_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forebay.broker.storage.replication.engines.kafka.objects.index.SEARCHED_BYTES", 1_000)
    topic = Topic(*index_at(0, b"index"), *others(1, 4_000))

    assert topic.found() is None
    assert min(topic.read_at) >= 3_600


def test_parts_of_an_index_are_joined_across_the_steps_of_the_search() -> None:
    values = [b"%d," % number for number in range(40)]
    topic = Topic(*others(0, 3), *index_at(3, *values), *others(43, 2))

    assert topic.found() == b"".join(values)


def test_a_topic_without_an_index_is_searched_once() -> None:
    topic = Topic(*others(0, 200), *index_at(200, b"value", name="records/1"))

    assert topic.found() is None
    assert len(topic.read_at) <= 200 // 3 + 10


def test_messages_that_are_cut_are_not_searched() -> None:
    topic = Topic(*index_at(0, b"cut"), *others(1, 20))

    assert topic.found(begin=1) is None
    assert min(topic.read_at) == 1


def test_messages_that_no_version_can_read_are_left_to_those_who_take_them() -> None:
    topic = Topic(*index_at(0, b"index"), LogMessage(1, b"FBK1" + b"\x63" * 50, b""))

    assert topic.found() == b"index"
