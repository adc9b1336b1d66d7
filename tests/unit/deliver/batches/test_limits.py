"""Upper bounds of a batch."""

from __future__ import annotations

import pytest

from forebay.deliver import BatchLimits


@pytest.mark.parametrize("name", ["records_max", "bytes_max"])
def test_limits_below_one_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} = 0"):
        BatchLimits(**{name: 0})


def test_the_tighter_limit_counts() -> None:
    tight = BatchLimits(records_max=10, bytes_max=1000).within(BatchLimits(records_max=1, bytes_max=5000))

    assert tight == BatchLimits(records_max=1, bytes_max=1000)


@pytest.mark.parametrize("wait_s", [-1.0, 3_601.0, float("nan")])
def test_a_wait_outside_of_its_limits_is_refused(wait_s: float) -> None:
    with pytest.raises(ValueError, match="wait_s"):
        BatchLimits(wait_s=wait_s)


def test_the_wait_that_a_user_gives_counts_also_if_it_is_longer_than_that_of_the_target() -> None:
    given, target = BatchLimits.given(None, None, 5.0), BatchLimits(10_000, 8 << 20, wait_s=1.0)
    assert given is not None

    assert given.within(target) == BatchLimits(10_000, 8 << 20, wait_s=5.0)
    assert BatchLimits(100).within(target).wait_s == 1.0
    assert given.completed() == BatchLimits(wait_s=5.0)
    assert BatchLimits.given(None, None, None) is None
