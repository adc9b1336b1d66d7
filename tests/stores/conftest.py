"""Folders for real servers."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def server_folder() -> Path:
    """Folder that a server of another user can reach; the server removes it."""
    return Path(tempfile.mkdtemp(prefix="forebay-store-"))
