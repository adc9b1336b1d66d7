"""The newest pages in memory: lowered bounds, and failures that reach no caller."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from forebay.broker.core.writes import PageWrite
from forebay.broker.runtime.read.page_cache import PAGE_BYTES, FailingPageCache
from forebay.broker.runtime.read.read_cache import EVICTED_MAX, ReadCache
from tests.unit.broker.runtime.read.test_page_cache import stored

MANY = 2 * EVICTED_MAX + 10
USES: dict[str, Callable[[ReadCache], object]] = {
    "add": lambda cache: cache.add([stored(1, 2)]),
    "found": lambda cache: cache.has(1, 1),
    "size_of": lambda cache: cache.size_of(1),
    "drop": lambda cache: cache.drop(1, [1]),
    "limit_changed": lambda cache: cache.limit(1, 10),
    "relieve": lambda cache: cache.bound(10),
}


def pages(count: int, sink: int = 1) -> list[PageWrite]:
    return [stored(sink, number) for number in range(count)]


@pytest.mark.anyio
async def test_a_lowered_bound_is_reached_in_turns_of_the_loop() -> None:
    cache = ReadCache(1 << 30)
    cache.add(pages(MANY))
    done = asyncio.Event()

    cache.bound(0, done.set)
    at_once = cache.size
    await done.wait()

    assert (at_once, cache.size) == ((MANY - EVICTED_MAX) * PAGE_BYTES, 0)


@pytest.mark.anyio
async def test_a_sink_that_is_deleted_leaves_nothing() -> None:
    cache = ReadCache(1 << 30)
    cache.limit(1, 1 << 20)
    cache.add([*pages(3, sink=1), *pages(3, sink=2)])

    cache.evict_sink(1)

    assert (cache.size_of(1), cache.size, cache.serves(1)) == (0, 3 * PAGE_BYTES, True)


@pytest.mark.anyio
async def test_of_a_deleted_sink_with_many_pages_the_rest_is_evicted_in_later_turns() -> None:
    cache = ReadCache(1 << 30)
    cache.add([*pages(MANY, sink=1), *pages(3, sink=2)])

    cache.evict_sink(1)
    at_once = cache.size_of(1)
    for _ in range(MANY // EVICTED_MAX):
        await asyncio.sleep(0)

    assert (at_once, cache.size_of(1), cache.size) == ((MANY - EVICTED_MAX) * PAGE_BYTES, 0, 3 * PAGE_BYTES)
    assert cache.serves(1)


def test_a_sink_is_served_while_neither_bound_is_zero() -> None:
    cache = ReadCache(1_000)
    cache.limit(1, 0)

    assert [cache.serves(1), cache.serves(2)] == [False, True]
    cache.limit(1, None)
    cache.bound(0)
    assert [cache.serves(1), cache.serves(2)] == [False, False]


@pytest.mark.parametrize("operation", USES)
@pytest.mark.parametrize("error", [MemoryError(), KeyError(1), RuntimeError("lost")], ids=type)
def test_a_failure_empties_it_and_reaches_no_caller(
    operation: str, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    made: list[FailingPageCache] = []

    def make(*given: object) -> FailingPageCache:
        made.append(FailingPageCache(*given))  # type: ignore[arg-type]
        return made[-1]

    cache = ReadCache(1 << 20, make)
    cache.add([stored(1, 1)])
    made[0].fail(operation, error)

    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            USES[operation](cache)

    assert (cache.has(1, 1), cache.size, cache.failures, cache.serves(1)) == (False, 0, 1, False)
    assert cache.failure.startswith(type(error).__name__)
    assert [record.getMessage().split(" cause")[0] for record in caplog.records] == [
        "realtime failed, readers read the store"
    ]


def test_after_a_failure_it_begins_again_with_the_bounds_of_now() -> None:
    made: list[FailingPageCache] = []

    def make(*given: object) -> FailingPageCache:
        made.append(FailingPageCache(*given))  # type: ignore[arg-type]
        return made[-1]

    cache = ReadCache(1 << 20, make)
    made[0].fail("add", MemoryError())
    cache.add(pages(1))
    cache.limit(1, 0)
    cache.bound(2 * PAGE_BYTES)

    cache.restart()
    cache.restart()
    cache.add([*pages(4, sink=1), *pages(4, sink=2)])

    assert (cache.failure, len(made), cache.size_of(1), cache.size_of(2)) == ("", 2, 0, 2 * PAGE_BYTES)
