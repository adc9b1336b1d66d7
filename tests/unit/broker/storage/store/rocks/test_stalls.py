"""Time of write stalls in the text of RocksDB."""

from __future__ import annotations

import pytest

from forebay.broker.storage.store.rocks.stalls import stall_s

STATISTICS = """
** DB Stats **
Uptime(secs): 7300.0 total, 60.0 interval
Cumulative stall: {} H:M:S, 33.0 percent
Interval stall: 00:00:9.000 H:M:S, 15.0 percent
"""


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("00:00:0.000", 0.0), ("00:00:0.024", 0.024), ("01:02:3.500", 3_723.5), ("123:00:59.999", 442_859.999)],
)
def test_the_time_of_all_stalls_is_read_not_that_of_the_last_interval(text: str, seconds: float) -> None:
    assert stall_s(STATISTICS.format(text)) == pytest.approx(seconds)


def test_statistics_without_the_time_of_stalls_give_none() -> None:
    assert stall_s("") is None
    assert stall_s(STATISTICS.format("24.0 ms")) is None
