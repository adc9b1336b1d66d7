"""Progress of a backup on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from forebay.client import BackupProgress


@contextmanager
def shown_progress() -> Iterator[Callable[[BackupProgress], None]]:
    """Yield a function that shows progress on standard error; on a pipe it shows nothing."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("backup", total=None)

        def show(progress: BackupProgress) -> None:
            bar.update(task, description=progress.id, total=progress.bytes or None, completed=progress.bytes_done)

        yield show
