"""Fixtures of the slow cases, which ``make test`` does not run: see ``make fault-spark``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fault_spark.processes import Marked
from tests.fault_spark.serving import Serving
from tests.support.processes.stopping import StoppingLauncher

HERE = Path(__file__).parent
TIMEOUT_S = 900
"""Several drivers, one after the other, on a machine that may have other things to do."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture
def serving(launcher: StoppingLauncher, tmp_path: Path) -> Iterator[Serving]:
    """A broker with a sink."""
    one = Serving(launcher, tmp_path)
    yield one
    one.process.kill()


@pytest.fixture
def marked() -> Iterator[Marked]:
    """Whatever Spark starts in a test; all of it ends with the test."""
    one = Marked()
    yield one
    one.kill_all()
