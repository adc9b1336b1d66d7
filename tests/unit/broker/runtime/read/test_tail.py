from __future__ import annotations

from forebay.broker.core.partition.pages import Body
from forebay.broker.runtime.read.tail import Tail


def body(size: int) -> Body:
    return Body(0, b"x" * size)


def test_the_newest_pages_are_kept_and_the_oldest_go_first() -> None:
    tail = Tail(100)

    for number in range(5):
        tail.put(number, body(40))

    assert [number for number in range(5) if tail.get(number) is not None] == [3, 4]
    assert tail.size == 80


def test_a_page_over_the_bound_is_not_kept() -> None:
    tail = Tail(100)

    tail.put(1, body(101))

    assert (tail.get(1), tail.size) == (None, 0)


def test_no_memory_is_a_bound_too() -> None:
    tail = Tail(0)

    tail.put(1, body(1))

    assert (tail.get(1), tail.size) == (None, 0)


def test_a_page_that_left_the_log_is_forgotten() -> None:
    tail = Tail(100)
    tail.put(1, body(40))

    tail.drop(1)
    tail.drop(1)

    assert (tail.get(1), tail.size) == (None, 0)
