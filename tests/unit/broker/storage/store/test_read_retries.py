from __future__ import annotations

import pytest

from forebay.broker.storage.errors import StoreFailed, StoreShortage, StoreUnreadable
from forebay.broker.storage.store.read_retries import SHORTAGE_DELAYS_S, START_READ_DELAYS_S, patiently


class Failing:
    """Fails a number of times, then answers."""

    def __init__(self, failures: int, error: Exception) -> None:
        self.left = failures
        self.error = error
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        if self.calls <= self.left:
            raise self.error
        return "answer"


def test_a_transient_error_is_retried_after_each_pause() -> None:
    slept: list[float] = []
    call = Failing(2, StoreUnreadable("EIO"))

    assert patiently(call, (1.0, 2.0, 3.0), passing=StoreUnreadable, sleep=slept.append) == "answer"
    assert slept == [1.0, 2.0]


def test_a_lasting_error_is_raised_after_the_last_pause() -> None:
    slept: list[float] = []
    call = Failing(99, StoreShortage("ingest", "EMFILE"))

    with pytest.raises(StoreShortage):
        patiently(call, (1.0, 2.0), passing=StoreShortage, sleep=slept.append)

    assert (slept, call.calls) == ([1.0, 2.0], 3)


def test_another_error_is_raised_at_once() -> None:
    call = Failing(1, StoreFailed("write", "EIO"))

    with pytest.raises(StoreFailed):
        patiently(call, (1.0,), passing=StoreUnreadable, sleep=lambda _: pytest.fail("slept"))

    assert call.calls == 1


def test_both_waits_are_bounded() -> None:
    assert sum(START_READ_DELAYS_S) < 5
    assert 50 < sum(SHORTAGE_DELAYS_S) < 70
