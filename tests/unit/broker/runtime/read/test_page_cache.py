"""The memory of the newest pages: bounded for all sinks and for each, and shared fairly."""

from __future__ import annotations

from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from forebay.broker.core.partition.pages import Body, Entry
from forebay.broker.core.writes import PageWrite
from forebay.broker.runtime.read.page_cache import PAGE_BYTES, PageCache

EVERYTHING = 1 << 30


def stored(sink: int, number: int, size: int = 0) -> PageWrite:
    """A page that takes ``size`` bytes beside what every page takes."""
    entry = Entry(number, 1, number, False, size, 1, 1, 1, 0, 0, ())
    return PageWrite(sink, 0, entry, Body(0, b"x" * size))


def room(pages: int, size: int = 0) -> int:
    return pages * (PAGE_BYTES + size)


def kept(cache: PageCache, sink: int, numbers: range = range(100)) -> list[int]:
    return [number for number, body in zip(numbers, cache.found(sink, numbers), strict=True) if body is not None]


def test_the_newest_pages_are_kept_and_the_oldest_are_evicted_first() -> None:
    cache = PageCache(room(2), {})

    cache.add([stored(1, number) for number in range(5)])

    assert (kept(cache, 1), cache.size) == ([3, 4], room(2))


def test_a_page_over_the_bound_evicts_nothing() -> None:
    cache = PageCache(room(2), {})

    cache.add([stored(1, 1), stored(1, 2), stored(1, 3, size=room(2))])

    assert kept(cache, 1) == [1, 2]


def test_a_busy_sink_does_not_evict_the_pages_of_a_quiet_one() -> None:
    cache = PageCache(room(10), {})
    cache.add([stored(1, 0), stored(2, 1), stored(2, 2)])

    cache.add([stored(3, number) for number in range(3, 100)])

    assert (kept(cache, 1), kept(cache, 2)) == ([0], [1, 2])
    assert len(kept(cache, 3)) == 7


def test_sinks_with_equal_load_get_equal_shares() -> None:
    cache = PageCache(room(12), {})

    for number in range(90):
        cache.add([stored(number % 3, number)])

    assert [cache.size_of(sink) for sink in range(3)] == [room(4)] * 3
    assert kept(cache, 0)[-1] == 87


def test_a_sink_with_a_bound_of_its_own_evicts_its_own_pages_only() -> None:
    cache = PageCache(room(10), {1: room(3)})
    cache.add([stored(2, number) for number in range(4)])

    cache.add([stored(1, number) for number in range(10, 30)])

    assert (kept(cache, 1), kept(cache, 2)) == ([27, 28, 29], [0, 1, 2, 3])


def test_a_lowered_bound_of_a_sink_or_of_all_is_reached_in_pieces_and_nothing_is_added_meanwhile() -> None:
    limits: dict[int, int] = {}
    cache = PageCache(room(20), limits)
    cache.add([stored(1, number) for number in range(10)])
    cache.add([stored(2, number) for number in range(10)])

    limits[1] = room(4)
    cache.limit_changed(1)
    steps = [cache.relieve(5), cache.size_of(1)]
    cache.add([stored(1, 10)])
    steps += [cache.relieve(5), cache.size_of(1)]
    cache.bytes_max = room(6)
    steps += [cache.relieve(3), cache.size]
    cache.add([stored(3, 11)])
    steps += [cache.relieve(100), cache.size]

    assert steps == [False, room(5), True, room(4), False, room(11), True, room(6)]
    assert (kept(cache, 1), kept(cache, 2), kept(cache, 3)) == ([7, 8, 9], [7, 8, 9], [])


def test_a_sink_without_memory_keeps_nothing() -> None:
    cache = PageCache(EVERYTHING, {1: 0})

    cache.add([stored(1, 1)])

    assert (kept(cache, 1), cache.size) == ([], 0)


def test_a_page_that_left_the_log_is_removed_once() -> None:
    cache = PageCache(EVERYTHING, {})
    cache.add([stored(1, 1)])

    cache.drop(1, 1)
    cache.drop(1, 1)
    cache.drop(2, 1)

    assert (kept(cache, 1), cache.size, cache.size_of(1)) == ([], 0, 0)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 4), st.integers(0, 700)),
        st.tuples(st.just("drop"), st.integers(0, 4), st.integers(0, 30)),
        st.tuples(st.just("limit"), st.integers(0, 4), st.integers(0, 3_000)),
        st.tuples(st.just("bound"), st.just(0), st.integers(0, 8_000)),
    ),
    max_size=200,
)


@given(STEPS)
def test_every_bound_holds_after_every_step_and_the_largest_sink_gives_way(steps: list[tuple[str, int, int]]) -> None:
    limits: dict[int, int] = {}
    cache = PageCache(4_000, limits)
    model: dict[int, OrderedDict[int, int]] = {sink: OrderedDict() for sink in range(5)}

    def total(sink: int) -> int:
        return sum(model[sink].values())

    for number, (step, sink, amount) in enumerate(steps):
        if step == "add":
            cache.add([stored(sink, number, amount)])
            if amount + PAGE_BYTES <= min(limits.get(sink, cache.bytes_max), cache.bytes_max):
                model[sink][number] = amount + PAGE_BYTES
        elif step == "drop":
            cache.drop(sink, amount)
            model[sink].pop(amount, None)
        elif step == "limit":
            limits[sink] = amount
            cache.limit_changed(sink)
        else:
            cache.bytes_max = amount
        assert cache.relieve(1_000)
        for of, pages in model.items():
            found = cache.found(of, list(pages))
            evicted = found.count(None)
            assert None not in found[evicted:], "the oldest are evicted first"
            others = max(cache.size_of(other) for other in model if other != of)
            for old in list(pages)[:evicted]:
                own = total(of) > limits.get(of, 1 << 62) or (step == "add" and of == sink and of in limits)
                assert own or total(of) + 1_000 >= others, "the sink with most gives way"
                del pages[old]
            assert cache.size_of(of) == total(of) <= limits.get(of, 1 << 62)
        assert cache.size == sum(total(of) for of in model) <= cache.bytes_max
