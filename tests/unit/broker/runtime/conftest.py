"""Tests of what runs are coroutines: each gets a loop of its own."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """The broker runs on asyncio."""
    return "asyncio"
