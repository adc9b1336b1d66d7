"""Fixtures of the fault tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.processes.broker import free_port
from tests.support.processes.stopping import StoppingLauncher


@pytest.fixture(scope="module")
def launcher() -> Iterator[StoppingLauncher]:
    """Starts broker processes within milliseconds, and ends those that are left."""
    with StoppingLauncher() as one:
        yield one


@pytest.fixture
def listen() -> str:
    """An address that is kept through a kill."""
    return f"127.0.0.1:{free_port()}"
