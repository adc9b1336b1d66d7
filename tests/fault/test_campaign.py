"""Ten kills, a part of ``make test-campaigns``; ``make fault KILLS=n`` does more."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.fault.campaign import run
from tests.support.campaigns.killing import Options

FAILS_AT_THE_FIRST_ROUND: Final = """
import sys
import time
from pathlib import Path

from forebay.client import ForebayError
from tests.support.campaigns.killing import Campaign, Options
from tests.support.processes.broker import Launcher


class Failing(Campaign):
    def _round(self, broker, plan):
        while not any(publisher.sent for publisher in self._publishers):
            time.sleep(0.01)
        broker.kill()
        raise ForebayError("the question to the broker failed")


with Launcher() as launcher:
    Failing(Options(kills=1, seed=1, directory=Path(sys.argv[1])), launcher).run()
"""


@pytest.mark.campaign
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("uses_asyncio", [False, True], ids=["threads", "asyncio"])
def test_nothing_is_lost_skipped_doubled_or_out_of_order_when_a_broker_is_killed_ten_times(
    in_memory: Path, uses_asyncio: bool
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    messages: list[str] = []

    report = run(Options(kills=10, seed=seed, directory=in_memory, say=messages.append, asyncio=uses_asyncio))

    assert report.ok, "\n".join([report.line(), *messages])
    assert report.kills == 10
    assert report.acknowledged > 1_000
    assert report.delivered > 1_000


@pytest.mark.campaign
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_nothing_is_lost_skipped_doubled_or_out_of_order_when_the_brokers_of_a_shard_take_over_from_each_other(
    in_memory: Path,
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    messages: list[str] = []

    report = run(
        Options(kills=3, seed=seed, directory=in_memory, say=messages.append, journal=str(in_memory / "journal"))
    )

    assert report.ok, "\n".join([report.line(), *messages])
    assert report.kills == 3
    assert report.acknowledged > 100


@pytest.mark.campaign
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_campaign_that_fails_while_publishers_have_records_in_flight_ends_with_the_failure(in_memory: Path) -> None:
    command = [sys.executable, "-c", FAILS_AT_THE_FIRST_ROUND, str(in_memory)]

    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert ended.returncode == 1
    assert "ForebayError: the question to the broker failed" in ended.stderr
