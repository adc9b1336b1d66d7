"""A real Prometheus that scrapes a real broker as the shipped configuration says."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

import pytest
import yaml

SHIPPED: Final = Path(__file__).resolve().parents[2] / "compose" / "observability"
READY_S: Final = 60.0


def tool(name: str) -> str:
    """Return the path of a program of Prometheus; the test fails without it."""
    found = shutil.which(name)
    if found is None:
        pytest.fail(f"{name} was not found: install Prometheus (Debian, Ubuntu: apt install prometheus)")
    return found


class Prometheus:
    """A running Prometheus."""

    def __init__(self, url: str) -> None:
        self._url = url

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the series that answer a query; an error of Prometheus fails the test."""
        with urlopen(f"{self._url}/api/v1/query?query={quote(expression)}", timeout=10) as answer:
            document = json.load(answer)
        assert document["status"] == "success", document
        found: list[dict[str, Any]] = document["data"]["result"]
        return found

    def rules(self) -> dict[str, str]:
        """Return the health of each alert rule by its name, once all were evaluated."""
        with urlopen(f"{self._url}/api/v1/rules", timeout=10) as answer:
            groups = json.load(answer)["data"]["groups"]
        return {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}

    def is_ready(self) -> bool:
        """Return whether it answers queries."""
        try:
            with urlopen(f"{self._url}/-/ready", timeout=10):
                return True
        except (URLError, ConnectionError):
            return False


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
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()
            process.wait(30)


@pytest.fixture(scope="session")
def prometheus(served: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Run Prometheus with the shipped configuration and rules, on the test's broker and every second."""
    folder = tmp_path_factory.mktemp("prometheus")
    document = yaml.safe_load((SHIPPED / "prometheus.yaml").read_text(encoding="utf-8"))
    document["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    document["rule_files"] = [str(SHIPPED / "rules.yaml")]
    [scrape] = document["scrape_configs"]
    scrape["static_configs"] = [{"targets": [served["metrics"].removeprefix("http://").removesuffix("/metrics")]}]
    for newer in ("otlp", "storage"):  # Debian's Prometheus is 2.42
        del document[newer]
    config = folder / "prometheus.yaml"
    config.write_text(yaml.safe_dump(document), encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [tool("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, f"--web.listen-address=127.0.0.1:{port}"], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    running = Prometheus(f"http://127.0.0.1:{port}")
    try:
        until(running.is_ready, f"Prometheus did not start: {folder / 'log'}")
        until(lambda: running.query("up") != [], "Prometheus scrapes nothing")
        until(lambda: [series["value"][1] for series in running.query("up")] == ["1"], "the broker is not scraped")
        yield running
    finally:
        process.terminate()
        process.wait(30)
