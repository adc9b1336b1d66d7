"""A driver that is killed with -9, wherever it is, and started again writes each row once. Cases S2 and X20."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.client import SinkStats
from holdfast.client.testing import TestBroker
from tests.spark.buffered import staged, values
from tests.spark.streaming import Input

ROOT = Path(__file__).resolve().parents[2]
ENDS_IN_S = 240
ROWS = 3_000


class Driver:
    """One run of the query, with the JVM and all that it starts in a group of its own."""

    def __init__(self, endpoint: str, folder: Path, *, pause_s: float) -> None:
        arguments = ["--endpoint", endpoint, "--folder", str(folder), "--pause-s", str(pause_s)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.driver", *arguments],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def kill(self) -> None:
        """End it as a machine that stops: nothing is told to anybody."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def finish(self) -> None:
        """Wait for its end, which has to be a good one."""
        assert self._process.wait(ENDS_IN_S) == 0


@pytest.mark.timeout(3 * ENDS_IN_S)
def test_s2_x20_a_driver_that_is_killed_before_and_after_a_commit_leaves_each_row_once(
    broker: TestBroker, tmp_path: Path, input_files: Input
) -> None:
    def killed_when(holds: Callable[[SinkStats], bool], pause_s: float) -> None:
        driver = Driver(broker.endpoint, tmp_path, pause_s=pause_s)
        try:
            with broker.client() as client:
                next(stats for stats in client.sinks.watch("orders", interval_s=0.1) if holds(stats))
        finally:
            driver.kill()

    for _ in range(3):
        input_files.add(ROWS)

    killed_when(lambda stats: stats.staged_records > 0, pause_s=600)
    assert values(broker.endpoint) == []
    killed_when(lambda stats: stats.records > 0, pause_s=0)
    assert len(values(broker.endpoint)) % ROWS == 0
    Driver(broker.endpoint, tmp_path, pause_s=0).finish()

    assert values(broker.endpoint) == sorted(line.ljust(1000, b".") for line in input_files.written)
    assert staged(broker.endpoint) == 0
