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
