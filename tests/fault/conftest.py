"""Fixtures of the fault tests."""

from __future__ import annotations

import pytest

from tests.support.processes.broker import free_port


@pytest.fixture
def listen() -> str:
    """An address that is kept through a kill."""
    return f"127.0.0.1:{free_port()}"
