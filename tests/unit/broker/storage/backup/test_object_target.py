from __future__ import annotations

from collections.abc import Iterator

import pytest
from obstore.store import MemoryStore

from forebay.broker.storage.backup.object_target import DELETED_AT_ONCE, SINGLE_BYTES, ObjectTarget
from forebay.broker.storage.backup.target import read_all


@pytest.fixture
def target() -> ObjectTarget:
    return ObjectTarget(MemoryStore(), "memory")


@pytest.mark.parametrize("size", [0, 1, SINGLE_BYTES - 1, SINGLE_BYTES, SINGLE_BYTES + 1, 3 * SINGLE_BYTES])
def test_any_number_of_bytes_round_trips(target: ObjectTarget, size: int) -> None:
    buffer = bytearray(1 << 20)

    def chunks() -> Iterator[memoryview]:
        left, number = size, 0
        while left:
            count, number = min(left, len(buffer)), number + 1
            buffer[:count] = bytes([number]) * count  # the same buffer each time, as a transfer has
            left -= count
            yield memoryview(buffer)[:count]

    target.put("a/b", chunks())

    content = read_all(target, "a/b")
    assert len(content) == size
    assert [content[at] for at in range(0, size, 1 << 20)] == list(range(1, -(-size >> 20) + 1))


@pytest.mark.parametrize("before", [1, 2 * SINGLE_BYTES])
def test_an_upload_that_fails_leaves_no_object(target: ObjectTarget, before: int) -> None:
    def broken() -> Iterator[bytes]:
        yield b"x" * before
        raise ValueError("gone")

    with pytest.raises(ValueError, match="gone"):
        target.put("a/b", broken())

    assert list(target.names()) == []


def test_names_are_listed_by_their_beginning(target: ObjectTarget) -> None:
    for name in ("a/x", "a/y/z", "b/x"):
        target.put(name, [b"1"])

    assert sorted(target.names()) == ["a/x", "a/y/z", "b/x"]
    assert sorted(target.names("a/")) == ["a/x", "a/y/z"]
    assert sorted(target.names("a/y")) == ["a/y/z"]


def test_absent_names_are_not_found_and_may_be_deleted(target: ObjectTarget) -> None:
    target.put("a", [b"1"])

    with pytest.raises(FileNotFoundError):
        read_all(target, "b")
    target.delete(["a", *map(str, range(DELETED_AT_ONCE + 1))])

    assert list(target.names()) == []
