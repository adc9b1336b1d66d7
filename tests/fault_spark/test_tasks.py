"""An executor is killed in mid write; a slow attempt is overtaken by its speculative copy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fault_spark.driver import Work
from tests.fault_spark.processes import DriverProcess, Marked, spark_class
from tests.fault_spark.serving import Serving, written_once
from tests.fault_spark.test_drivers import ONE_BATCH_S, START_S, work
from tests.support.processes.broker import free_port

HOSTS = ("127.0.0.2", "127.0.0.3")
"""Spark makes no copy of a task on a host that runs it already."""


def test_an_executor_that_is_killed_in_mid_write_leaves_each_row_once(
    serving: Serving, marked: Marked, tmp_path: Path
) -> None:
    wanted = replace(
        work(serving.endpoint, tmp_path),
        master="local-cluster[2,1,1024]",
        first_attempt_hangs=True,
        conf=(("spark.deploy.maxExecutorRetries", "-1"),),
        to_the_end=True,
    )

    with written_once(serving, wanted), DriverProcess(marked, wanted) as driver:
        driver.expect("started", START_S)
        serving.wait_staged()
        assert marked.kill(*marked.find("executor")) == 2  # one of them is in mid write
        driver.expect("ended", ONE_BATCH_S)

    assert second_attempts(wanted)


@pytest.fixture
def master(marked: Marked, tmp_path: Path) -> Iterator[str]:
    """A cluster of two workers with one core each, on two hosts."""
    port = str(free_port())
    at = f"spark://127.0.0.1:{port}"
    package = "org.apache.spark.deploy"
    servers = [["master.Master", "--host", "127.0.0.1", "--port", port, "--webui-port", "0"]]
    servers += [
        ["worker.Worker", "--host", host, "--webui-port", "0", "--cores", "1", "--memory", "1g", "--work-dir", "", at]
        for host in HOSTS
    ]
    started = []
    for number, (name, *options) in enumerate(servers):
        folder = tmp_path / f"server-{number}"
        folder.mkdir()
        command = [f"{package}.{name}", *(option or str(folder / "work") for option in options)]
        started.append(spark_class(marked, folder, command, folder / "log"))
    yield at
    marked.kill_all()
    for process in started:
        process.wait()


def test_a_slow_attempt_that_is_overtaken_by_its_copy_leaves_each_row_once(
    serving: Serving, marked: Marked, tmp_path: Path, master: str
) -> None:
    wanted = replace(
        work(serving.endpoint, tmp_path),
        master=master,
        tasks=2,
        first_attempt_hangs=True,
        conf=(
            ("spark.executor.memory", "800m"),
            ("spark.scheduler.minRegisteredResourcesRatio", "1.0"),
            ("spark.scheduler.maxRegisteredResourcesWaitingTime", "300s"),
            ("spark.speculation", "true"),
            ("spark.speculation.interval", "50ms"),
            ("spark.speculation.minTaskRuntime", "50ms"),
            ("spark.speculation.multiplier", "1.1"),
            ("spark.speculation.quantile", "0.5"),
        ),
        to_the_end=True,
    )

    with written_once(serving, wanted), DriverProcess(marked, wanted) as driver:
        driver.expect("started", START_S)
        driver.expect("ended", ONE_BATCH_S)

    assert second_attempts(wanted)


def second_attempts(done: Work) -> list[str]:
    """The attempts that came after a first one."""
    return [found.name for found in Path(done.folder).glob("attempt-0-[1-9]*")]
