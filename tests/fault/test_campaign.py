"""Ten kills, as a part of every test run; ``make fault KILLS=n`` does more."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.fault.campaign import run
from tests.support.campaigns.killing import Options


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("uses_asyncio", [False, True], ids=["threads", "asyncio"])
def test_nothing_is_lost_skipped_doubled_or_out_of_order_when_a_broker_is_killed_ten_times(
    in_memory: Path, uses_asyncio: bool
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    told: list[str] = []

    report = run(Options(kills=10, seed=seed, directory=in_memory, say=told.append, asyncio=uses_asyncio))

    assert report.ok, "\n".join([report.line(), *told])
    assert report.kills == 10
    assert report.acknowledged > 1_000
    assert report.delivered > 1_000


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_nothing_is_lost_skipped_doubled_or_out_of_order_when_the_brokers_of_a_shard_take_over_from_each_other(
    in_memory: Path,
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    told: list[str] = []

    report = run(Options(kills=3, seed=seed, directory=in_memory, say=told.append, journal=str(in_memory / "journal")))

    assert report.ok, "\n".join([report.line(), *told])
    assert report.kills == 3
    assert report.acknowledged > 100
