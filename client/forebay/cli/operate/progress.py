"""Progress of a long command: a bar on standard error where that is a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from forebay.cli.output import JSON_MESSAGES

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

STEP: Final = 500
"""Records between two updates of the bar."""

STEP_BYTES: Final = 64 << 10
"""Bytes between two updates of the bar."""

Advance = Callable[[int], None]
"""Takes the number of further records, or bytes."""

Share = Callable[[int, int], None]
"""Takes the number in total, and the number that is done."""


def no_share(total: int, done: int) -> None:
    """Show nothing."""


def shows_progress() -> bool:
    """Return True if a bar is shown: on a terminal, and not for programs."""
    return sys.stderr.isatty() and not JSON_MESSAGES.get()


@contextmanager
def shown_count(description: str, total: int | None = None) -> Iterator[Advance]:
    """Yield a function that counts records; the bar is removed at the end."""
    if not shows_progress():
        yield lambda _: None
        return
    with _bar(description, total, "records") as (bar, task), _counted(bar, task, total, STEP) as advance:
        yield advance


@contextmanager
def shown_bytes(description: str, total: int) -> Iterator[Advance]:
    """Yield a function that counts bytes; the bar is removed at the end."""
    if not shows_progress():
        yield lambda _: None
        return
    with _bar(description, total, None) as (bar, task), _counted(bar, task, total, STEP_BYTES) as advance:
        yield advance


@contextmanager
def _counted(bar: Progress, task: TaskID, total: int | None, step: int) -> Iterator[Advance]:
    """Yield a function that counts; a total that was too low grows."""
    done = shown = 0

    def show() -> None:
        nonlocal shown
        shown = done
        bar.update(task, completed=done, total=None if total is None else max(total, done))

    def advance(count: int) -> None:
        nonlocal done
        done += count
        if done - shown >= step:
            show()

    yield advance
    show()


@contextmanager
def shown_partitions(description: str) -> Iterator[Share]:
    """Yield a function that shows how many partitions are done; the bar is removed at the end."""
    if not shows_progress():
        yield no_share
        return
    with _bar(description, None, "partitions") as (bar, task):
        yield lambda total, done: bar.update(task, total=total, completed=done)


@contextmanager
def _bar(description: str, total: int | None, unit: str | None) -> Iterator[tuple[Progress, TaskID]]:
    """Yield a bar of things that ``unit`` names; None for bytes."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    amount = (DownloadColumn(),) if unit is None else (MofNCompleteColumn(), TextColumn(unit))
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), *amount, TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield bar, bar.add_task(description, total=total)
