"""Progress of a backup, of its restore or of an import, on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from forebay.cli.operate.progress import Share, shown_partitions, shows_progress

if TYPE_CHECKING:
    from collections.abc import Callable


@contextmanager
def shown_progress() -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function that shows progress on standard error; on a pipe it shows nothing.

    It takes the name of what is transferred, and the bytes to transfer and transferred.
    """
    if not shows_progress():
        yield lambda _name, _bytes, _done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("backup", total=None)

        def show(name: str, total: int, done: int) -> None:
            bar.update(task, description=name, total=total or None, completed=done)

        yield show


@contextmanager
def shown_phases(read: str, then: str) -> Iterator[tuple[Share, Share]]:
    """Yield two functions: one shows the bytes that are read; the other one, after it, the partitions."""
    with ExitStack() as bars:
        show = bars.enter_context(shown_progress())
        second: Share | None = None

        def partitions(total: int, done: int) -> None:
            nonlocal second
            if second is None:
                bars.close()
                second = bars.enter_context(shown_partitions(then))
            second(total, done)

        yield lambda total, done: show(read, total, done), partitions
