"""Progress of a long command: a bar on standard error where that is a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from forebay.cli.output import JSON_MESSAGES

STEP: Final = 500
"""Records between two updates of the bar."""

Advance = Callable[[int], None]
"""Takes the number of further records."""


@contextmanager
def shown_count(description: str, total: int | None = None, *, unit: str = "records") -> Iterator[Advance]:
    """Yield a function that counts what is done; the bar is removed at the end."""
    if JSON_MESSAGES.get() or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total)
        waiting = 0

        def advance(count: int) -> None:
            nonlocal waiting
            waiting += count
            if waiting >= STEP or unit != "records":
                bar.advance(task, waiting)
                waiting = 0

        yield advance
        bar.advance(task, waiting)
