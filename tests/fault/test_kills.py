"""A broker process is killed at every step of its store, one at a time; what the next one finds is compared."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import count
from pathlib import Path
from typing import Literal

import pytest

from forebay.client import Client
from tests.support.campaigns.publishers import SETTINGS
from tests.support.oracles.oracle import Oracle
from tests.support.oracles.walk import SINK, walk
from tests.support.processes.broker import BrokerEnded, BrokerProcess
from tests.support.processes.stopping import StoppingLauncher
from tests.support.processes.stops import Action, Stop

STEPS_MIN = {"ingest": 1, "write": 10, "sync": 10}


@pytest.fixture
def workers() -> Iterator[ThreadPoolExecutor]:
    """Threads for work that runs while a broker is killed."""
    with ThreadPoolExecutor(2) as pool:
        yield pool


class Survivor:
    """One walk through a broker that is killed once and started again."""

    def __init__(self, launcher: StoppingLauncher, directory: Path, listen: str) -> None:
        self._launcher = launcher
        self._directory = directory
        self._listen = listen
        self.oracle = Oracle(SINK, 1, may_drop=False)

    def goes_through(self, stop: Stop, workers: ThreadPoolExecutor) -> bool:
        """Walk; returns whether the broker was killed on the way."""
        broker = self._launcher.start_to(stop, self._directory, self._listen)
        try:
            broker.ready()
        except BrokerEnded:
            killed = broker.wait() == -9
            assert killed
            broker = self._again()
        else:
            killed = False
        walking = workers.submit(walk, self._listen, self.oracle)
        while not wait([walking], timeout=0.01).done:
            if broker.has_ended():
                assert (broker.wait(), killed) == (-9, False)
                killed = True
                broker = self._again()
        walking.result()
        code = broker.terminate()
        assert code == 0 or (code == -9 and not killed)
        return killed or code == -9

    def _again(self) -> BrokerProcess:
        broker = self._launcher.start(self._directory, self._listen)
        broker.ready()
        return broker

    def violations(self) -> list[str]:
        """Compare what is left at the end with what was promised."""
        with self._again() as broker:
            with Client(self._listen, settings=SETTINGS) as client:
                self.oracle.check(client.sinks.stats(SINK), self.oracle.promises(), all_told=True)
            assert broker.terminate() == 0
        self.oracle.close()
        return self.oracle.stories


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("action", ["ingest", "write", "sync"])
def test_a_kill_at_any_step_of_the_store_loses_doubles_and_skips_nothing(
    action: Action,
    when: Literal["before", "after"],
    launcher: StoppingLauncher,
    workers: ThreadPoolExecutor,
    listen: str,
    in_memory: Path,
) -> None:
    for number in count(1):
        survivor = Survivor(launcher, in_memory / f"store-{number}", listen)

        killed = survivor.goes_through(Stop(action, when, number), workers)

        assert survivor.violations() == [], f"killed {when} {action} {number}"
        if not killed:
            break
    assert number > STEPS_MIN[action]
