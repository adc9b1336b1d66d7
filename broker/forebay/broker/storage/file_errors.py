"""File names in errors of the system: calls on an open descriptor raise without one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name ``path`` in an ``OSError`` that is raised inside and names no file."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise
