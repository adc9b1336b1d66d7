"""A commit is killed, held and cut at each of its moments; the micro-batch is there once, and whole at every look."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest
from pyspark.sql import SparkSession

from holdfast.client import Client, EpochNotFound
from tests.fault.process import BrokerProcess, free_port
from tests.fault.stopping import StoppingLauncher
from tests.fault.stops import Stop
from tests.fault_spark.driver import Work, start
from tests.fault_spark.looker import watched
from tests.fault_spark.proxy import CommitProxy, Moment

PARTITIONS = 3
ONE_BATCH_S = 60.0


class Serving:
    """A broker process on a folder, that is killed and started again at one address."""

    def __init__(self, launcher: StoppingLauncher, folder: Path) -> None:
        self._launcher = launcher
        self._store = folder / "store"
        self.endpoint = f"127.0.0.1:{free_port()}"
        self.process = self.start()
        with Client(self.endpoint) as client:
            client.sinks.create("orders", partitions=PARTITIONS)

    def start(self) -> BrokerProcess:
        """Start it."""
        self.process = self._launcher.start(self._store, self.endpoint)
        self.process.ready()
        return self.process

    def start_to(self, stop: Stop) -> BrokerProcess:
        """Stop it as asked, and start it to be killed at a step of its store."""
        self.process.terminate()
        self.process = self._launcher.start_to(stop, self._store, self.endpoint)
        self.process.ready()
        return self.process

    def has_committed(self) -> bool:
        """Whether the sink's only producer has an epoch."""
        with Client(self.endpoint) as client:
            [producer] = client.epochs.list("orders")
            try:
                client.epochs.get("orders", producer.producer)
            except EpochNotFound:
                return False
            return True

    def wait_committed(self) -> None:
        """Return when there are records."""
        with Client(self.endpoint) as client:
            next(stats for stats in client.sinks.watch("orders", interval_s=0.1) if stats.records)


@pytest.fixture(scope="module")
def launcher() -> Iterator[StoppingLauncher]:
    with StoppingLauncher() as one:
        yield one


@pytest.fixture
def serving(launcher: StoppingLauncher, tmp_path: Path) -> Iterator[Serving]:
    one = Serving(launcher, tmp_path)
    yield one
    one.process.kill()


def work(endpoint: str, folder: Path) -> Work:
    """One micro-batch each time that it is started."""
    return Work(endpoint, str(folder / "checkpoint"), str(folder), to_the_end=True)


@contextmanager
def written_once(serving: Serving, wanted: Work) -> Iterator[None]:
    """Whatever the block does: all is there once and was never there in part, and nothing stays staged."""
    with watched(serving.endpoint, wanted, PARTITIONS):
        yield
    with Client(serving.endpoint) as client:
        stats = client.sinks.stats("orders")
    assert stats.identity_ok
    assert (stats.records, stats.staged_records) == (wanted.rows, 0)


@pytest.mark.parametrize(
    "stop",
    [
        Stop("write", "before", kind="page"),
        Stop("write", "after", kind="page"),
        Stop("sync", "after", kind="page"),
    ],
    ids=["before it is written", "behind its write", "behind its sync"],
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
