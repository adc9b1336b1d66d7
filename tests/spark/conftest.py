"""One real Spark for all tests of this folder, and a broker for each of them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from forebay.client import testing
from forebay.client.testing import TestBroker
from forebay.spark.session import local_session, use_in_this_thread
from tests.support.spark.streaming import Input

HERE = Path(__file__).parent
TOKEN_VARIABLE = "FOREBAY_TESTS_TOKEN"
TOKEN = "the-token-of-the-tests-with-spark"
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Its best compiler takes longer than it saves in a few minutes."""
TIMEOUT_S = 600
"""Of one test: Spark is slow on a loaded machine, and a job that is cut off spoils the session for the other tests."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder: it starts Spark, and the first one waits for it."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Start Spark on two cores; a task is tried twice."""
    folder = tmp_path_factory.mktemp("spark")
    before = dict(os.environ)
    os.environ[TOKEN_VARIABLE] = TOKEN  # of tests of it; only what starts with Spark reaches all of its processes
    with warnings.catch_warnings():
        # PySpark says that it does not know the pandas that is installed; nothing here uses pandas.
        warnings.simplefilter("ignore", FutureWarning)
        conf = {"spark.sql.warehouse.dir": str(folder), "spark.driver.extraJavaOptions": JAVA}
        session = local_session("tests", tries=2, conf=conf)
    yield session
    session.stop()
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(autouse=True)
def active(spark: SparkSession) -> None:
    """Make the session the active one of this thread, whatever the test before did to it."""
    use_in_this_thread(spark)


@pytest.fixture
def broker() -> Iterator[TestBroker]:
    """Run a broker in this process, with the sink ``orders`` of three partitions."""
    with testing.broker() as running:
        with running.client() as client:
            client.sinks.create("orders", partitions=3)
        yield running


@pytest.fixture
def input_files(tmp_path: Path) -> Input:
    """Return an empty input folder."""
    return Input(tmp_path)
