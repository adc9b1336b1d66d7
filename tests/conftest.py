"""Which tests must run in one process when the suite runs in two."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

HERE = Path(__file__).parent
# Spark starts once per process; the READMEs say one port.
TOGETHER = {"spark": HERE / "spark", "readmes": HERE / "unit" / "test_readmes.py"}

settings.register_profile("quick", max_examples=15)
settings.register_profile("coverage", deadline=None, suppress_health_check=[HealthCheck.too_slow])  # measuring is slow


@pytest.hookimpl(tryfirst=True)  # before the groups are read
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of Spark in one process, and those that listen on the port of the READMEs in one."""
    for item in items:
        for group, where in TOGETHER.items():
            if item.path == where or where in item.path.parents:
                item.add_marker(pytest.mark.xdist_group(group))
