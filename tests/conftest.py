"""Grouping of tests that must run in one process when the suite runs in several, and settings of those processes."""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.support.processes.stopping import StoppingLauncher

HERE = Path(__file__).parent
# Spark starts once per process.
TOGETHER = {"spark": HERE / "spark"}

# No test is timed: on a loaded machine an example takes many times as long.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("suite"), max_examples=15)
settings.load_profile("suite")


@pytest.hookimpl(tryfirst=True)  # before the groups are read
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of Spark in one process."""
    groups: dict[Path, list[str]] = {}
    for item in items:
        if item.path not in groups:
            above = {item.path, *item.path.parents}
            groups[item.path] = [group for group, where in TOGETHER.items() if where in above]
        for group in groups[item.path]:
            item.add_marker(pytest.mark.xdist_group(group))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse a version of pytest-xdist that ignores the groups: each process would start Spark."""
    if session.config.getoption("loadgroup", default=False):
        loose = [
            item.nodeid for item in session.items if item.get_closest_marker("xdist_group") and "@" not in item.nodeid
        ]
        if loose:
            raise pytest.UsageError(
                f"pytest-xdist put {loose[0]} into no group; does it support this version of pytest?"
            )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exclude modules and tests from garbage collection: each close of a RocksDB store would traverse all of them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


@pytest.fixture(scope="session")
def launcher() -> Iterator[StoppingLauncher]:
    """Starts broker processes within milliseconds, and ends those that are left; it takes a second to start itself."""
    # Imported here: it loads the broker, which the process that distributes the tests does not need.
    from tests.support.processes.stopping import StoppingLauncher

    with StoppingLauncher() as one:
        yield one
