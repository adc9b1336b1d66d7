from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator

import pytest

from forebay.broker.storage.replication.engine import EngineAway, EngineUnsuitable
from forebay.broker.storage.replication.engines.kafka.objects.index import INDEX
from forebay.broker.storage.replication.engines.kafka.objects.message import MAGIC, Header, MessageKind, encode
from tests.support.storage.topic_log import MemoryTopic, content_of, opened, reclaim

PART_BYTES = 4


def test_own_messages_are_known_without_a_read_and_those_of_others_are_read() -> None:
    topic = MemoryTopic()
    (store, log), (other, _) = opened(topic), opened(topic)
    store.refresh()

    assert store.create("a", [b"first"])
    assert log.tail.reads == 0
    other.put("b", [b"x" * 20])
    assert store.create("c", [b"third"])
    assert log.tail.reads > 0
    assert not store.create("b", [b"too late"])


def test_an_object_of_several_messages_is_read_back() -> None:
    store, _ = opened(MemoryTopic())

    assert store.create("a", [b"", b"12345", memoryview(b"6789012345")[1:], b""])

    assert content_of(store, "a") == b"12345789012345"
    assert store.create("empty", [])
    assert content_of(store, "empty") == b""


def test_a_change_whose_answer_is_lost_may_have_taken_effect() -> None:
    topic = MemoryTopic()
    store, _ = opened(topic)
    topic.lost_answers = 1

    with pytest.raises(EngineAway, match="the answer was lost"):
        store.create("a", [b"first"])

    assert not store.create("a", [b"again"])
    assert content_of(store, "a") == b"first"


def test_a_change_whose_offset_is_unknown_is_repeated_by_the_caller() -> None:
    topic = MemoryTopic()
    store, _ = opened(topic)
    store.create("a", [b"first"])
    topic.unknown_offsets = 1

    with pytest.raises(EngineAway, match="its offset is unknown"):
        store.create("b", [b"second"])

    assert not store.create("b", [b"second"])
    assert content_of(store, "b") == b"second"


def test_a_log_that_confirms_nothing_is_unreachable() -> None:
    store, log = opened(MemoryTopic())
    log.silent = True

    with pytest.raises(EngineAway, match="no confirmation"):
        store.create("a", [b"first"])
    with pytest.raises(EngineAway, match="no confirmation"):
        store.put("a", [b"x" * 200])


def test_many_names_are_deleted_with_messages_of_a_bounded_size() -> None:
    topic = MemoryTopic()
    store, _ = opened(topic)
    names = [f"n{number}" for number in range(10)]
    for name in names:
        store.create(name, [])

    store.delete([*names, "missing"])
    store.delete([])

    assert store.below("") == []
    assert max(len(message.value) for message in topic.messages) <= 8


def test_a_message_of_a_later_version_makes_the_topic_unsuitable() -> None:
    topic = MemoryTopic()
    topic.add(MAGIC + b"\x63" * 50, b"")
    store, _ = opened(topic)

    with pytest.raises(EngineUnsuitable, match="the message at 0 cannot be read, a later version may have written it"):
        store.refresh()


def test_offsets_without_a_message_have_no_effect() -> None:
    topic = MemoryTopic()
    store, _ = opened(topic)
    store.create("a", [b"first"])
    topic.messages.append(topic.messages[0]._replace(key=None, offset=4))

    store.refresh()

    assert content_of(store, "a") == b"first"


def test_a_topic_that_has_lost_its_end_is_unreachable() -> None:
    topic = MemoryTopic()
    store, _ = opened(topic)
    store.create("a", [b"first"])
    topic.lose(1)

    with pytest.raises(
        EngineAway, match="the topic ends at 0, and ended at 1 before: it lost its end or was recreated"
    ):
        store.refresh()


def test_a_confirmation_below_the_known_end_is_none() -> None:
    topic = MemoryTopic()
    store, _ = opened(topic)
    store.create("a", [b"first"])
    topic.messages.clear()

    for _ in range(3):
        with pytest.raises(EngineAway, match=r"the topic ended at 1, and has a new message at 0: it lost its end"):
            store.create("b", [b"into the hole"])


def test_an_owner_that_was_frozen_during_a_cut_confirms_nothing_after_the_fence() -> None:
    topic = MemoryTopic()
    (frozen, its_log), (other, others_log) = opened(topic), opened(topic)
    frozen.refresh()
    other.create("records/3", [b"fence"])
    for number in range(20):
        other.put("hint", [b"%07d" % number])
    sent: list[Exception | bool] = []

    def wake() -> None:
        others_log.between = lambda: None
        its_log.between = finish
        try:
            sent.append(frozen.create("records/3", [b"of the former owner"]))
        except EngineAway as away:
            sent.append(away)

    def finish() -> None:
        its_log.between = lambda: None
        fence = other.find("records/3")
        assert fence is not None
        base = topic.end - 3
        header = Header(MessageKind.CARRY, 1, 1, "records/3", base=base, origin=fence.origin)
        topic.add(encode(header), b"fence")
        topic.cut(base)

    wake()

    assert isinstance(sent[0], EngineAway)
    assert "its outcome is unknown" in str(sent[0])
    assert not frozen.create("records/3", [b"of the former owner"])
    assert content_of(frozen, "records/3") == b"fence"


def test_messages_that_are_read_with_an_earlier_one_are_not_read_again() -> None:
    topic = MemoryTopic()
    (store, _), (reader, log) = opened(topic), opened(topic)
    for name in "abc":
        store.create(name, [name.encode()])
    reader.refresh()
    reader.cache.clear()  # as after much else was read

    assert [content_of(reader, name) for name in "acb"] == [b"a", b"c", b"b"]
    assert log.reader.reads == 1


def test_own_messages_that_are_confirmed_while_the_end_is_asked_for_do_not_make_the_topic_look_shorter() -> None:
    store, log = opened(MemoryTopic())
    store.create("records/1", [b"a"])

    def create() -> None:
        log.answering = lambda: None
        store.create("records/2", [b"b"])

    log.answering = create

    assert [found.name for found in store.below("records/1")] == ["records/1"]
    assert {found.name for found in store.below("records/")} == {"records/1", "records/2"}


def test_a_deletion_is_one_message_that_no_cut_divides() -> None:
    topic = MemoryTopic()
    store = opened(topic, PART_BYTES)[0]
    store.create("records/1", [b"1"])

    store.delete(["records/1", "records/2"])

    assert [message.value for message in topic.messages] == [b"1", b"records/1", b"records/2"]


def test_a_reader_that_begins_again_after_a_cut_leaves_what_is_known_to_the_others() -> None:
    topic = MemoryTopic()
    begins_again, goes_on = threading.Event(), threading.Event()
    (store, log), (other, _) = opened(topic, PART_BYTES), opened(topic, PART_BYTES)
    reader = threading.Thread(target=store.refresh)
    ends_asked = itertools.count()

    def answering() -> None:
        match next(ends_asked):
            case 0:
                assert reclaim(other) > 0
            case 1:  # the offsets were gone, and the first one of all is asked for again
                begins_again.set()
                goes_on.wait(30.0)

    store.put("files/kept", [b"kept"])
    store.refresh()
    for _ in range(20):
        other.put("files/replaced", [b"1234"])
    log.answering = answering

    reader.start()
    try:
        assert begins_again.wait(30.0)
        assert store.find_known("files/kept") is not None
    finally:
        goes_on.set()
        reader.join()

    assert content_of(opened(topic)[0], "files/kept") == b"kept"


def test_a_reader_does_not_go_back_to_a_time_before_what_it_knows() -> None:
    topic = MemoryTopic()
    (store, log), (other, _) = opened(topic), opened(topic)
    for name in "abc":
        store.create(name, [b"first"])
    other.create("d", [b"first"])

    def lose() -> None:
        log.answering = lambda: None
        topic.lose(3)

    log.answering = lose

    with pytest.raises(EngineAway, match="the topic ends at 1, and ended at 3 before"):
        store.find("c")


def test_a_topic_that_has_lost_its_end_is_not_followed_once_others_have_written_as_much_again() -> None:
    topic = MemoryTopic()
    (follower, _), (owner, _) = opened(topic), opened(topic)
    for name in "abc":
        owner.create(name, [b"old"])
    assert follower.find("c") is not None
    topic.lose(2)
    with pytest.raises(EngineAway, match="it lost its end"):
        follower.find("c")

    other, _ = opened(topic)
    for name in "cbde":
        assert other.create(name, [b"new"])

    for _ in range(2):
        with pytest.raises(EngineAway, match="the message at 2 is another one than it was: it lost its end"):
            follower.find("e")
    with pytest.raises(EngineAway, match="it lost its end"):
        follower.create("f", [b"of a former owner"])


def test_a_topic_that_has_lost_its_end_while_a_broker_was_asleep_is_not_followed() -> None:
    topic, now = MemoryTopic(), [0.0]
    (owner, _), (other, _) = opened(topic, clock=lambda: now[0]), opened(topic)
    owner.create("fence", [b"1"])
    other.create("a", [b"old"])
    assert owner.create("b", [b"old"])
    topic.lose(2)
    now[0] += 60.0
    other, _ = opened(topic)
    for name in "abcd":
        other.create(name, [b"new"])

    with pytest.raises(EngineAway, match="the message at 2 is another one than it was: it lost its end"):
        owner.create("e", [b"of a former owner"])


def test_an_error_that_passes_leaves_what_is_known() -> None:
    topic, now = MemoryTopic(), [0.0]
    (store, log), (other, _) = opened(topic, clock=lambda: now[0]), opened(topic)
    store.create("a", [b"1"])
    other.create("b", [b"2"])
    topic.lost_answers = 1
    with pytest.raises(EngineAway, match="the answer was lost"):
        store.create("c", [b"3"])
    now[0] += 60.0
    other.create("d", [b"4"])

    assert store.create("e", [b"5"])
    assert sorted(found.name for found in store.below("")) == list("abcde")
    assert not log.reader.reads


def test_no_change_is_confirmed_once_another_one_has_shown_that_the_topic_has_lost_its_end() -> None:
    topic = MemoryTopic()
    store, _ = opened(topic)
    for name in "abc":
        store.create(name, [b"old"])

    def pieces() -> Iterator[bytes]:
        yield b"12345678" * 2  # the first message of which is lost
        topic.lose(3)
        with pytest.raises(EngineAway, match="it lost its end"):
            store.create("d", [b"new"])
        for number in range(2):
            opened(topic)[0].create(f"{number}", [b"new"])
        yield b"12345678"

    with pytest.raises(EngineAway, match="it lost its end"):
        store.put("e", pieces())


def test_a_reader_that_has_fetched_what_was_cut_meanwhile_begins_again_behind_the_cut() -> None:
    topic = MemoryTopic()
    (store, log), (other, _) = opened(topic), opened(topic)
    store.create("kept", [b"1"])
    for _ in range(4):
        other.put("hint", [b"12345678"])

    def fetch_and_cut() -> None:
        log.between = lambda: None
        log.tail.ahead = topic.messages[1:]
        for _ in range(20):
            other.put("hint", [b"12345678"])
        assert reclaim(other) > 0

    log.between = fetch_and_cut

    with pytest.raises(EngineAway, match="its outcome is unknown, since the topic was cut"):
        store.create("new", [b"2"])

    assert not store.create("new", [b"2"])
    assert store.incomplete() == {}
    assert content_of(store, "new") == b"2"


def test_a_reader_begins_at_the_newest_index() -> None:
    topic = MemoryTopic()
    store, _ = opened(topic, 1_000)
    for number in range(500):
        store.create(f"n{number}", [b"%d" % number])
    store.write_index()
    store.create("after", [b"it"])
    late, log = opened(topic, 1_000)

    assert content_of(late, "after") == b"it"
    assert content_of(late, "n7") == b"7"
    assert not late.create("n8", [b"of a former owner"])
    assert min(log.tail.offsets) >= 490


def test_an_index_is_due_once_enough_was_written_after_the_one_before() -> None:
    store, _ = opened(MemoryTopic(), index_bytes=100)

    def written() -> int | None:
        store.index()
        found = store.find(INDEX)
        return found.origin if found is not None else None

    store.create("a", [b"x" * 99])
    assert written() is None
    store.create("b", [b"x"])
    first = written()
    assert first is not None
    store.create("c", [b"x" * 200])
    assert written() == first, "less than its own bytes, several times"
    store.create("d", [b"x" * 4_000])
    assert written() != first


def test_an_index_that_is_damaged_is_not_used(caplog: pytest.LogCaptureFixture) -> None:
    topic = MemoryTopic()
    store, _ = opened(topic)
    store.create("a", [b"first"])
    store.put(INDEX, [b"damaged"])

    assert content_of(opened(topic)[0], "a") == b"first"
    assert "index of a topic is damaged and not used" in caplog.text


def test_an_index_from_before_the_last_cut_is_not_used() -> None:
    topic = MemoryTopic()
    store, _ = opened(topic)
    store.put("hint", [b"old"])
    store.write_index()
    index = [message for message in topic.messages if message.offset > 0]
    store.put("hint", [b"new"])
    topic.cut(index[0].offset)

    late, _ = opened(topic)

    assert content_of(late, "hint") == b"new"
    assert [found.name for found in late.below("h")] == ["hint"]


def test_an_index_of_messages_that_the_topic_has_lost_is_not_used() -> None:
    topic = MemoryTopic()
    store, _ = opened(topic)
    store.create("a", [b"first"])
    store.create("b", [b"lost"])
    store.write_index()
    index = [(key, value) for _, key, value in topic.messages[2:]]
    topic.lose(len(topic.messages) - 1)
    other, _ = opened(topic)
    other.create("c", [b"second"])
    for key, value in index:
        assert key is not None
        topic.add(key, value)

    late, _ = opened(topic)

    assert late.find("b") is None
    assert content_of(late, "c") == b"second"


def test_an_index_that_covers_more_than_the_topic_has_is_not_used() -> None:
    source = MemoryTopic()
    store, _ = opened(source, 1_000)
    for number in range(5):
        store.create(f"n{number}", [b"lost"])
    store.write_index()
    topic = MemoryTopic()
    opened(topic, 1_000)[0].create("a", [b"first"])
    topic.add(source.messages[-1].key, source.messages[-1].value)

    assert content_of(opened(topic, 1_000)[0], "a") == b"first"


def test_an_index_that_cannot_be_used_does_not_hide_an_older_one() -> None:
    topic = MemoryTopic()
    store, _ = opened(topic, 10_000)
    for number in range(300):
        store.create(f"n{number}", [b"x"])
    store.write_index()
    store.put(INDEX, [b"damaged"])
    late, log = opened(topic, 10_000)

    assert content_of(late, "n7") == b"x"
    assert min(log.tail.offsets) >= 280


def test_an_index_that_cannot_be_written_is_logged_and_written_later(caplog: pytest.LogCaptureFixture) -> None:
    topic = MemoryTopic()
    store, _ = opened(topic, 1_000, index_bytes=1)
    store.create("a", [b"first"])
    topic.refused = 1

    store.index()
    assert store.find(INDEX) is None
    assert "index of a topic was not written journal=topic cause=" in caplog.text

    store.index()
    assert store.find(INDEX) is not None


def test_an_own_message_after_a_silence_is_known_only_once_the_one_before_it_was_checked() -> None:
    topic, now = MemoryTopic(), itertools.count(0.0, 10.0)
    store, _ = opened(topic, clock=lambda: next(now))
    other, _ = opened(topic)
    other.create("a", [b"lost"])
    assert content_of(store, "a") == b"lost"
    topic.lose(1)
    opened(topic)[0].create("b", [b"second"])

    with pytest.raises(EngineAway, match="the message at 0 is another one than it was"):
        store.put("c", [b"third"])
