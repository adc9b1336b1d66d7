"""An operation that is written once blocks, or is a coroutine, as its object says."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator

import pytest

from forebay.client.transport.operations import Awaiting, Blocking, blocked, iterated, operation, stream


class CounterCalls:
    """Count, in steps."""

    def __init__(self) -> None:
        self.closed = 0

    @operation
    async def double(self, number: int, *, plus: int = 0) -> int:
        """Return twice the number."""
        return 2 * number + plus

    @stream
    async def up_to(self, end: int) -> AsyncGenerator[int, None]:
        """Yield the numbers below the end."""
        try:
            for number in range(end):
                yield number
        finally:
            self.closed += 1


class Counter(CounterCalls, Blocking):
    """Counter that blocks."""


class AwaitedCounter(CounterCalls, Awaiting):
    """Counter of coroutines."""


def test_an_operation_of_a_blocking_object_returns_its_result() -> None:
    assert Counter().double(3, plus=1) == 7
    assert Counter.double(Counter(), 3) == 6
    assert list(Counter().up_to(3)) == [0, 1, 2]


def test_an_operation_of_an_awaiting_object_is_a_coroutine() -> None:
    async def run() -> tuple[int, list[int]]:
        counter = AwaitedCounter()
        return await counter.double(3, plus=1), [number async for number in counter.up_to(3)]

    assert asyncio.run(run()) == (7, [0, 1, 2])
    assert inspect.iscoroutinefunction(AwaitedCounter().double)
    assert inspect.isasyncgenfunction(AwaitedCounter().up_to)


def test_both_forms_have_name_and_description() -> None:
    for one in (Counter(), AwaitedCounter()):
        assert (one.double.__name__, one.double.__doc__) == ("double", "Return twice the number.")


def test_an_iteration_that_is_left_early_is_closed() -> None:
    counter = Counter()
    steps = counter.up_to(3)

    assert next(steps) == 0
    steps.close()

    assert counter.closed == 1


def test_an_error_passes_through() -> None:
    async def failing() -> AsyncGenerator[int, None]:
        yield 1
        raise ZeroDivisionError

    steps = iterated(failing())

    assert next(steps) == 1
    with pytest.raises(ZeroDivisionError):
        next(steps)


def test_a_coroutine_that_suspends_is_no_work_for_a_thread() -> None:
    with pytest.raises(RuntimeError, match="must block"):
        blocked(asyncio.sleep(0))
