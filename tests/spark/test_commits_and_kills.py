"""A commit is killed, held and cut at each of its moments; the micro-batch is there once, and whole at every look."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from pyspark.sql import SparkSession

from tests.fault_spark.driver import Work, start
from tests.fault_spark.serving import Serving, written_once
from tests.support.processes.stopping import StoppingLauncher
from tests.support.processes.stops import Stop
from tests.support.proxies.commits import CommitProxy, Moment

ONE_BATCH_S = 240.0
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def serving(launcher: StoppingLauncher, tmp_path: Path) -> Iterator[Serving]:
    one = Serving(launcher, tmp_path)
    yield one
    one.process.kill()


def work(endpoint: str, folder: Path) -> Work:
    """One micro-batch each time that it is started."""
    return Work(endpoint, str(folder / "checkpoint"), str(folder), to_the_end=True)


@pytest.mark.parametrize(
    "stop",
    [
        Stop("write", "before", kind="page"),
        Stop("write", "after", kind="page"),
        Stop("sync", "after", kind="page"),
    ],
    ids=["before it is written", "after its write", "after its sync"],
)
def test_a_broker_that_is_killed_in_a_commit_is_asked_again(
    spark: SparkSession, serving: Serving, tmp_path: Path, stop: Stop
) -> None:
    wanted = work(serving.endpoint, tmp_path)
    killed = serving.start_to(stop)

    with written_once(serving, wanted):
        query = start(spark, wanted)
        assert killed.wait(ONE_BATCH_S) == -9
        serving.start()
        query.awaitTermination()


@pytest.mark.parametrize("moment", ["request", "answer"])
@pytest.mark.parametrize("harm", ["cut", "kill"])
def test_a_commit_whose_connection_or_broker_is_gone_is_made_again(
    spark: SparkSession, serving: Serving, tmp_path: Path, moment: Moment, harm: Literal["cut", "kill"]
) -> None:
    with CommitProxy(serving.endpoint) as proxy:
        wanted = work(proxy.endpoint, tmp_path)
        proxy.hold(moment)

        with written_once(serving, wanted):
            query = start(spark, wanted)
            proxy.wait_held(ONE_BATCH_S)
            if moment == "answer":
                serving.wait_committed()
            assert serving.has_committed() == (moment == "answer")
            if harm == "kill":
                serving.process.kill()
                serving.start()
            proxy.cut()
            query.awaitTermination()

        assert proxy.commits == 2
