"""Progress of a backup, or of an import, on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@contextmanager
def shown_progress() -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function that shows progress on standard error; on a pipe it shows nothing.

    It takes the name of what is transferred, and the bytes to transfer and transferred.
    """
    if not sys.stderr.isatty():
        yield lambda _name, _bytes, _done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("backup", total=None)

        def show(name: str, total: int, done: int) -> None:
            bar.update(task, description=name, total=total or None, completed=done)

        yield show
