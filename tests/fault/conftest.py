"""Fixtures of the fault tests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes.broker import free_port
from tests.support.storage.memory_folder import memory_folder


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[Path]:
    """A folder without the time of a disk's syncs, for stores whose process is killed: see ``memory_folder``."""
    with tempfile.TemporaryDirectory(prefix="forebay-fault-", dir=memory_folder() or tmp_path) as folder:
        yield Path(folder)


@pytest.fixture
def listen() -> str:
    """An address that is kept through a kill."""
    return f"127.0.0.1:{free_port()}"
