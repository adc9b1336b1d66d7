from __future__ import annotations

from collections.abc import Iterator
from threading import Event

import pytest

from forebay.broker.storage.replication.engine import EngineAway
from forebay.broker.storage.replication.engines.kafka.objects.index import INDEX
from forebay.broker.storage.replication.engines.kafka.objects.message import MessageKind, decode
from forebay.broker.storage.replication.engines.kafka.objects.reclaiming import Reclaiming
from forebay.broker.storage.replication.engines.kafka.objects.store import TopicStore
from tests.support.storage.topic_log import MemoryCursor, MemoryTopic, content_of, opened, reclaim

PART_BYTES = 4
CONTENT = bytes(range(40))
"""Of five messages, more than are read at once."""


def test_a_stop_ends_a_carry_and_deletes_nothing() -> None:
    topic = MemoryTopic()
    store, _ = opened(topic)
    store.create("file", [b"1234567812345678"])
    for _ in range(10):
        store.put("hint", [b"12345678"])
    stop = Event()
    stop.set()

    assert Reclaiming(store, garbage_bytes=1).run(stop) == 0
    assert topic.begin == 0
    assert reclaim(store) > 0


def test_garbage_is_cut_and_what_is_in_the_way_is_carried() -> None:
    topic = MemoryTopic()
    (store, _), (other, _) = opened(topic), opened(topic)
    store.create("fence", [b"first"])
    for number in range(40):
        store.put("hint", [b"%d" % number])
    assert other.find("fence") is not None
    for number in range(40):
        store.put("hint", [b"%d" % number * 2])

    assert reclaim(store, garbage_bytes=100) > 100
    assert topic.begin > 0
    for reader in (store, other, opened(topic)[0]):
        assert content_of(reader, "fence") == b"first"
        assert content_of(reader, "hint") == b"3939"
    assert not opened(topic)[0].create("fence", [b"of a former owner"])
    assert reclaim(store, garbage_bytes=100) == 0


def test_an_object_that_is_carried_while_it_is_read_is_read_to_its_end() -> None:
    topic = MemoryTopic()
    (store, _), (reader, _) = opened(topic), opened(topic)
    store.create("file", [CONTENT])
    found = reader.find("file")
    assert found is not None
    reader.cache.clear()  # as after much else was read
    parts = reader.parts(found)
    first = next(parts)
    for _ in range(20):
        store.put("hint", [b"12345678"])
    assert reclaim(store) > 0

    assert first + b"".join(parts) == CONTENT


def test_an_object_that_was_removed_while_it_is_read_is_missing() -> None:
    topic = MemoryTopic()
    (store, _), (reader, _) = opened(topic), opened(topic)
    store.create("file", [CONTENT])
    found = reader.find("file")
    assert found is not None
    reader.cache.clear()
    parts = reader.parts(found)
    next(parts)
    store.delete(["file"])
    for _ in range(10):
        store.put("hint", [b"12345678"])
    assert reclaim(store) > 0

    with pytest.raises(FileNotFoundError, match="file"):
        list(parts)


def test_an_object_that_was_replaced_while_it_is_read_is_not_missing() -> None:
    topic = MemoryTopic()
    (store, _), (reader, _) = opened(topic), opened(topic)
    store.put("hint", [b"first"])
    found = reader.find("hint")
    reader.cache.clear()
    for _ in range(10):
        store.put("hint", [b"12345678"])
    assert reclaim(store) > 0

    assert reader.content(found) == b"12345678"
    store.delete(["hint"])
    assert reader.content(reader.find("hint")) is None


def test_an_object_whose_messages_cannot_be_read_is_not_missing() -> None:
    topic = MemoryTopic()
    (store, _), (reader, log) = opened(topic), opened(topic)
    store.create("records/1", [b"first"])
    found = reader.find("records/1")
    reader.cache.clear()
    log.reader = MemoryCursor(MemoryTopic(begin=100), 3)

    with pytest.raises(EngineAway, match="records/1 is carried again and again"):
        reader.content(found)


def test_a_change_that_its_writer_left_is_ended_before_a_cut_and_has_no_effect_then() -> None:
    topic = MemoryTopic()
    (store, _), (other, _) = opened(topic), opened(topic)

    def pieces() -> Iterator[bytes]:
        yield b"12345678" * 2
        for _ in range(10):
            store.put("hint", [b"12345678"])
        assert reclaim(store) > 0
        yield b"rest"

    with pytest.raises(EngineAway, match="its outcome is unknown, since the topic was cut"):
        other.put("file", pieces())

    for reader in (store, other, opened(topic)[0]):
        assert {found.name for found in reader.below("")} == {"hint", INDEX}


def test_nothing_is_cut_whose_carry_was_ended_by_another_broker_meanwhile() -> None:
    topic = MemoryTopic()
    (store, log), (other, _) = opened(topic, PART_BYTES), opened(topic, PART_BYTES)
    store.put("files/kept", [b"three parts."])
    fill(store)

    def end_carry() -> None:
        log.between = lambda: None
        reclaim(other, garbage_bytes=1 << 20)

    log.between = end_carry

    with pytest.raises(EngineAway, match="another broker has ended what took too long"):
        reclaim(store)
    assert content_of(opened(topic)[0], "files/kept") == b"three parts."

    assert reclaim(store) > 0
    assert content_of(opened(topic)[0], "files/kept") == b"three parts."


def test_a_change_is_not_ended_while_it_gets_new_parts() -> None:
    topic, now = MemoryTopic(), [0.0]
    store, other = opened(topic, PART_BYTES)[0], opened(topic)[0]
    reclaiming = Reclaiming(other, garbage_bytes=1, clock=lambda: now[0])

    def pieces() -> Iterator[bytes]:
        for _ in range(6):
            yield b"1234"
            now[0] += 30.0
            reclaiming.run(Event())

    store.put("files/large", pieces())

    assert content_of(opened(topic)[0], "files/large") == b"1234" * 6


def test_a_change_without_a_new_part_is_ended() -> None:
    topic = MemoryTopic()
    store, other = opened(topic, PART_BYTES)[0], opened(topic, PART_BYTES)[0]

    def pieces() -> Iterator[bytes]:
        yield b"1234" * 2
        reclaim(other)
        yield b"5678"

    with pytest.raises(EngineAway, match=r"another broker has ended|outcome is unknown"):
        store.put("files/large", pieces())


def test_a_change_after_which_much_was_appended_is_ended_by_a_process_that_has_just_begun() -> None:
    topic = MemoryTopic()
    store, other = opened(topic, PART_BYTES)[0], opened(topic, PART_BYTES)[0]
    ended: list[bool] = []

    def pieces() -> Iterator[bytes]:
        yield b"1234" * 2
        for _ in range(3):
            Reclaiming(other, garbage_bytes=1, abandoned_bytes=120).run(Event())
            ended.append(not other.incomplete())
            other.put("files/replaced", [b"1234" * 20])
        yield b"5678"

    with pytest.raises(EngineAway, match=r"another broker has ended|outcome is unknown"):
        store.put("files/large", pieces())

    assert ended == [False, False, True]


def fill(store: TopicStore) -> None:
    """Append garbage."""
    for _ in range(20):
        store.put("files/replaced", [b"1234"])


def test_an_index_is_not_carried_but_written_again_after_the_cut() -> None:
    topic = MemoryTopic()
    store, _ = opened(topic)
    store.create("fence", [b"first"])
    store.write_index()
    for number in range(400):
        store.put("hint", [b"%d" % number])

    assert reclaim(store) > 0

    headers = [decode(message.key) for message in topic.messages]
    assert {header.kind for header in headers if header is not None and header.name == INDEX} == {MessageKind.PUT}
    late, _ = opened(topic)
    assert content_of(late, "fence") == b"first"
    assert content_of(late, "hint") == b"399"
