"""Drill: the demo's processes lose the broker's disk, and continue from a backup the commands restore.

The oracle is outside of the broker: the files that the source wrote, the database of the remote system, and the
checkpoint of Spark.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from forebay.cli.demo.processes.children import Child, Processes, python_module
from forebay.cli.demo.report.target_view import TargetView
from forebay.cli.demo.site import SINK, Site, spark_environment
from forebay.cli.demo.source.records import InputFolder, number_rows
from forebay.client import Client, ClientSettings
from tests.support.calls.eventually import stats_when, until

READY_S = 120.0
"""Spark on a machine that has other work."""


class Drill:
    """Broker, remote system, deliverer and Spark job, as `forebay demo` starts them."""

    def __init__(self, processes: Processes, folder: Path) -> None:
        self._processes = processes
        self._folder = folder
        self.site = Site(folder)
        for one in (self.site.input_folder, self.site.checkpoint):
            one.mkdir(parents=True)
        self.source = InputFolder(self.site.input_folder)
        self.broker, self.endpoint = self.start_broker()
        with Client(self.endpoint) as client:
            client.sinks.create(SINK, partitions=2)
        self.job = processes.start("spark", self.site.job(self.endpoint), environment=spark_environment(folder))
        receiver = processes.start("target", self.site.target())
        self._url = f"{self._said(receiver, 'url')}/records"
        self.start_deliverer()
        self._said(self.job, "started")

    def start_broker(self, listen: str = "127.0.0.1:0") -> tuple[Child, str]:
        """Start the broker on its directory."""
        settings = (f"backup_target={self._folder / 'backups'}", "disk_ballast_bytes=0", "disk_reserve_bytes=0")
        words = [word for setting in settings for word in ("--set", setting)]
        broker = self._processes.start("broker", [*self.site.broker(listen), *words])
        return broker, self._said(broker, "endpoint")

    def start_deliverer(self) -> None:
        """Start the deliverer."""
        self.deliverer = self._processes.start("deliverer", self.site.deliverer(self.endpoint, self._url))
        self._said(self.deliverer, "delivering")

    def _said(self, child: Child, fact: str) -> str:
        reports = list(self._processes.wait_for(child, fact, timeout_s=READY_S))
        return next(str(one.facts[fact]) for one in reports if one.child == child.name and fact in one.facts)

    def produce(self, name: str, count: int) -> list[str]:
        """Publish files of ten records; returns their ids."""
        made: list[str] = []
        rows = ({"number": number} for number in range(count))
        for chunk in number_rows(rows, source=name, chunk_rows=10, now=datetime.now(UTC)):
            self.source.publish(self.source.stage(chunk, name))
            made += [record.id for record in chunk]
        return made

    def arrivals(self) -> Counter[str]:
        """Return how often each record has arrived at the remote system."""
        with TargetView(self.site.database) as view:
            return Counter({row.record_id: row.times for row in view.rows()})

    def last_epoch(self) -> int:
        """Return the last micro-batch that Spark's checkpoint calls committed, once none is begun."""

        def last(folder: str) -> int:
            found = (self.site.checkpoint / folder).glob("[0-9]*")
            return max((int(path.name) for path in found), default=-1)

        until(lambda: last("commits") == last("offsets") >= 0, timeout_s=READY_S)
        return last("commits")

    def backup(self, *words: str) -> Any:
        """Run a command of `forebay backup`; returns its result."""
        command = python_module("forebay.cli", "backup", *words, "-o", "json")
        ended = subprocess.run(command, check=True, capture_output=True, text=True, cwd=self._folder)
        return json.loads(ended.stdout.splitlines()[-1] if words[0] == "create" else ended.stdout)

    def until_settled(self) -> None:
        """Wait until the remote system has everything, and the broker knows it."""
        with Client(self.endpoint, settings=ClientSettings()) as client:
            stats_when(client, SINK, lambda stats: stats.pending("default") == 0, timeout_s=READY_S)


@pytest.fixture
def drill(tmp_path: Path) -> Iterator[Drill]:
    with Processes(tmp_path) as processes:
        yield Drill(processes, tmp_path)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_demo_continues_after_the_loss_of_its_disk_and_the_report_equals_what_is_known_outside(
    drill: Drill,
) -> None:
    first = drill.produce("first", 60)
    until(lambda: set(drill.arrivals()) == set(first), timeout_s=READY_S)
    drill.until_settled()
    assert drill.deliverer.stop() == 0
    second = drill.produce("second", 40)
    with Client(drill.endpoint) as client:
        stats_when(client, SINK, lambda stats: stats.pending("default") == 40, timeout_s=READY_S)
    epoch = drill.last_epoch()
    undelivered = set(drill.source.produced_ids()) - set(drill.arrivals())
    drill.backup("create", "--endpoint", drill.endpoint)

    drill.start_deliverer()
    until(lambda: set(drill.arrivals()) == {*first, *second}, timeout_s=READY_S)
    drill.until_settled()
    drill.broker.kill()
    shutil.rmtree(drill.site.store)
    report = drill.backup("restore", "--into", str(drill.site.store), "--target", "backups")
    drill.broker, _ = drill.start_broker(drill.endpoint)

    [sink] = report["sinks"]
    assert sum(part["end"] for part in sink["partitions"]) == len(first) + len(second)
    assert [(one["name"], one["unsettled"]) for one in sink["subscriptions"]] == [("default", len(undelivered))]
    assert [one["epoch"] for one in sink["producers"]] == [epoch]

    third = drill.produce("third", 20)
    until(lambda: set(drill.arrivals()) == {*first, *second, *third}, timeout_s=READY_S)
    drill.job.end_input()
    assert drill.job.process.wait(READY_S) == 0
    drill.until_settled()
    assert drill.deliverer.stop() == 0
    times = drill.arrivals()
    assert {times[record] for record in (*first, *third)} == {1}
    assert {times[record] for record in second} == {2}  # they were acked after the backup
