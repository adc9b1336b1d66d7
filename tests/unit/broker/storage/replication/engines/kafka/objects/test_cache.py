from __future__ import annotations

from forebay.broker.storage.replication.engines.kafka.objects.cache import ENTRY_BYTES, MessageCache


def test_the_oldest_values_are_left_out_once_there_are_too_many_bytes() -> None:
    cache = MessageCache(3 * (ENTRY_BYTES + 10))
    for offset in range(4):
        cache.keep(offset, b"%010d" % offset)

    assert [cache.get(offset) for offset in range(5)] == [None, b"0000000001", b"0000000002", b"0000000003", None]


def test_empty_values_take_memory_too() -> None:
    cache = MessageCache(3 * ENTRY_BYTES)
    for offset in range(100):
        cache.keep(offset, b"")

    assert [offset for offset in range(100) if cache.get(offset) is not None] == [97, 98, 99]


def test_a_value_that_is_kept_again_counts_once() -> None:
    cache = MessageCache(2 * (ENTRY_BYTES + 10))
    for _ in range(10):
        cache.keep(1, b"x" * 10)
    cache.keep(2, b"y" * 10)

    assert (cache.get(1), cache.get(2)) == (b"x" * 10, b"y" * 10)
    cache.clear()
    assert cache.get(1) is None
