"""A real Prometheus that scrapes a real broker as the shipped configuration says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from tests.support.telemetry.prometheus import Prometheus

READY_S = 60.0


def until(found: Callable[[], bool], what: str, *, timeout_s: float = READY_S, pause_s: float = 0.2) -> None:
    """Return once ``found`` returns true; fails after the time limit."""
    end = time.monotonic() + timeout_s
    while not found():
        assert time.monotonic() < end, what
        time.sleep(pause_s)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Run a broker with metrics; yields its first words, with ``endpoint`` and ``metrics``."""
    data = tmp_path_factory.mktemp("broker") / "data"
    words = ["serve", "--data-dir", str(data), "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"]
    command = [sys.executable, "-m", "forebay.cli", *words, "-o", "json"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    env["FOREBAY_MAX_BROKER_BYTES"] = str(1 << 30)
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()
            process.wait(30)


@pytest.fixture(scope="session")
def prometheus(served: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Run Prometheus with the shipped configuration and rules, on the test's broker."""
    scrapes = served["metrics"].removeprefix("http://").removesuffix("/metrics")
    running = Prometheus(tmp_path_factory.mktemp("prometheus"), scrapes=scrapes)
    try:
        running.start()
        until(lambda: running.query("up") != [], "Prometheus scrapes nothing")
        until(lambda: [series["value"][1] for series in running.query("up")] == ["1"], "the broker is not scraped")
        yield running
    finally:
        running.close()
