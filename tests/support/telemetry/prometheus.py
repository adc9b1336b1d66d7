"""Prometheus with the shipped configuration and the flags of `compose.yaml`, on a broker of the test."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Final
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

import yaml

from tests.support.processes.broker import free_port
from tests.support.processes.server import ServerProcess
from tests.support.telemetry.tools import COMPOSE, SHIPPED, tool

_OURS: Final = ("--config.file=", "--storage.tsdb.path=")
"""Flags of `compose.yaml` that name a place in the container."""


class Prometheus(ServerProcess):
    """A Prometheus that scrapes every second and evaluates the shipped rules."""

    def __init__(self, folder: Path, *, scrapes: str) -> None:
        """``scrapes`` is the HOST:PORT of the broker's metrics."""
        super().__init__(folder)
        self._program = tool("prometheus")
        self._listen = f"127.0.0.1:{free_port()}"
        self.url = f"http://{self._listen}"
        self.otlp = f"{self.url}/api/v1/otlp"
        """URL of its receiver of OTLP."""
        document = yaml.safe_load((SHIPPED / "prometheus.yaml").read_text(encoding="utf-8"))
        document["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        document["rule_files"] = [str(SHIPPED / "rules.yaml")]
        [scrape] = document["scrape_configs"]
        scrape["static_configs"] = [{"targets": [scrapes]}]
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")

    def command(self) -> list[str]:
        services = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]
        flags = [flag for flag in services["prometheus"]["command"] if not flag.startswith(_OURS)]
        places = ["--config.file=prometheus.yaml", "--storage.tsdb.path=data", f"--web.listen-address={self._listen}"]
        return [self._program, *flags, *places]

    def is_ready(self) -> bool:
        try:
            with urlopen(f"{self.url}/-/ready", timeout=10):
                return True
        except (URLError, ConnectionError):
            return False

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the series that answer a query; an error of Prometheus fails the test."""
        found: list[dict[str, Any]] = self._get(f"query?query={quote(expression)}")["result"]
        return found

    def exemplars(self, expression: str) -> list[dict[str, str]]:
        """Return the labels of the exemplars of a query."""
        series = self._get(f"query_exemplars?query={quote(expression)}&start=0&end={time.time()}")
        return [exemplar["labels"] for one in series for exemplar in one["exemplars"]]

    def rules(self) -> dict[str, str]:
        """Return the health of each alert rule by its name, once all were evaluated."""
        groups = self._get("rules")["groups"]
        return {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}

    def _get(self, what: str) -> Any:
        with urlopen(f"{self.url}/api/v1/{what}", timeout=10) as answer:
            document = json.load(answer)
        assert document["status"] == "success", document
        return document["data"]
