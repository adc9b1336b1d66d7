"""A driver is killed around its commit and started again; two drivers have one checkpoint between them."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fault_spark.driver import Work
from tests.fault_spark.failures import name_of
from tests.fault_spark.looker import committed
from tests.fault_spark.processes import DriverProcess, Marked
from tests.fault_spark.serving import Serving, written_once
from tests.support.processes.stopping import let_go, wait_held
from tests.support.processes.stops import Stop
from tests.support.proxies.commits import CommitProxy, Moment

START_S = 300.0
ONE_BATCH_S = 300.0


def work(endpoint: str, folder: Path, name: str = "checkpoint") -> Work:
    folder = folder / "driver"
    folder.mkdir(exist_ok=True)
    return Work(endpoint, str(folder / name), str(folder))


def to_the_end(marked: Marked, wanted: Work) -> None:
    """Run what is unfinished and one micro-batch more; nothing of it fails."""
    with DriverProcess(marked, replace(wanted, to_the_end=True)) as driver:
        driver.expect("started", START_S)
        driver.expect("ended", ONE_BATCH_S)
        assert driver.wait(START_S) == 0


@pytest.mark.parametrize("moment", ["request", "answer"])
def test_a_driver_killed_before_or_after_a_commit_commits_the_batch_again_and_once(
    serving: Serving, marked: Marked, tmp_path: Path, moment: Moment
) -> None:
    with CommitProxy(serving.endpoint) as proxy:
        wanted = work(proxy.endpoint, tmp_path)
        with written_once(serving, wanted):
            proxy.hold(moment)
            with DriverProcess(marked, wanted) as driver:
                driver.expect("started", START_S)
                proxy.wait_held(ONE_BATCH_S)
                if moment == "answer":
                    serving.wait_committed()
                assert serving.has_committed() == (moment == "answer")
                driver.kill()
            proxy.cut()
            assert committed(Path(wanted.checkpoint)) == -1
            to_the_end(marked, wanted)


def test_a_driver_killed_while_the_broker_writes_its_commit_commits_the_batch_again_and_once(
    serving: Serving, marked: Marked, tmp_path: Path
) -> None:
    serving.start_to(Stop("write", "before", kind="page", hold=True))
    wanted = work(serving.endpoint, tmp_path)
    with DriverProcess(marked, wanted) as driver:
        driver.expect("started", START_S)
        wait_held(serving.store)
        driver.kill()
    let_go(serving.store)

    with written_once(serving, wanted):
        to_the_end(marked, wanted)


def test_two_queries_with_one_id_fence_each_other_and_write_every_batch_once(
    serving: Serving, marked: Marked, tmp_path: Path
) -> None:
    one, other = (work(serving.endpoint, tmp_path, name) for name in ("one", "other"))
    to_the_end(marked, one)
    shutil.copytree(one.checkpoint, other.checkpoint)

    with (
        DriverProcess(marked, replace(one, restarts=False)) as first,
        DriverProcess(marked, replace(other, restarts=False)) as second,
    ):
        for driver in (first, second):
            driver.expect("started", START_S)
        # The driver that began a batch last is the newer run; a commit of the other one is refused then.
        until = time.monotonic() + ONE_BATCH_S
        loser = first
        while not loser.has_told(0.1) and time.monotonic() < until:
            loser = second if loser is first else first
        assert name_of(loser.expect("failed", 1.0).why) == "EPOCH_FENCED"
    ahead = max((one, other), key=lambda work: committed(Path(work.checkpoint), "offsets"))

    with written_once(serving, ahead):
        to_the_end(marked, ahead)


def test_two_drivers_with_one_checkpoint_folder_write_every_batch_once(
    serving: Serving, marked: Marked, tmp_path: Path
) -> None:
    wanted = work(serving.endpoint, tmp_path)
    checkpoint = Path(wanted.checkpoint)

    with written_once(serving, wanted):
        with DriverProcess(marked, wanted) as first, DriverProcess(marked, wanted) as second:
            for driver in (first, second):
                driver.expect("started", START_S)
            until = time.monotonic() + ONE_BATCH_S
            while not (first.has_told(0.1) or second.has_told(0.1)):
                assert time.monotonic() < until, "neither of the two was refused"
            # Its driver has started the loser again by now; both have a part in the batches that follow.
            last = committed(checkpoint) + 3
            while committed(checkpoint) < last:
                assert time.monotonic() < until, f"no batch {last} within {ONE_BATCH_S:g} s"
                time.sleep(0.1)
        to_the_end(marked, wanted)
