"""Run of the demo or the quickstart in a folder, which is removed unless it is needed."""

from __future__ import annotations

import shutil
import signal
import tempfile
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from forebay.cli.exits import ExitCode
from forebay.cli.report import CommandFailed

if TYPE_CHECKING:
    from forebay.cli.demo.plan import DemoSettings
    from forebay.cli.demo.processes.children import ChildFailed
    from forebay.cli.demo.run import DemoResult


def run_demo(settings: DemoSettings, chosen: Path | None) -> tuple[Path, DemoResult]:
    """Run in the chosen folder, or in a temporary one, and return the folder and the result.

    A temporary folder stays after a failure only. Raises ``CommandFailed``.
    """
    from forebay.cli.demo.processes.children import ChildFailed

    signal.signal(signal.SIGTERM, _end)
    place = _folder(chosen)
    try:
        result = _run(settings, place)
    except ChildFailed as error:
        raise failure(error, place) from error
    except KeyboardInterrupt:
        _tidy(place, keep=chosen is not None)
        raise
    _tidy(place, keep=chosen is not None or not result.reconciliation.ok)
    return place, result


def failure(error: ChildFailed, place: Path) -> CommandFailed:
    """Return the failure of a run: its sentence, then the end of the log of the process line by line."""
    logged = [f"  {line}" for line in error.log_lines]
    return CommandFailed(error.sentence, lines=[*logged, f"files of the run: {place}"])


def _end(number: int, frame: FrameType | None) -> None:
    """Handle SIGTERM like Ctrl-C, so that all processes are stopped."""
    raise KeyboardInterrupt


def _folder(chosen: Path | None) -> Path:
    if chosen is None:
        return Path(tempfile.mkdtemp(prefix="forebay-demo-")).resolve()
    chosen.mkdir(parents=True, exist_ok=True)
    if any(chosen.iterdir()):
        raise CommandFailed(f"folder {chosen}: must be empty", ExitCode.USAGE)
    return chosen.resolve()


def _tidy(folder: Path, *, keep: bool) -> None:
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)


def _run(settings: DemoSettings, folder: Path) -> DemoResult:
    from rich.console import Console

    from forebay.cli.demo.report.progress import Progress
    from forebay.cli.demo.run import DemoRun
    from forebay.cli.demo.site import Site

    with Progress(Console(stderr=True, highlight=False)) as progress:
        return DemoRun(settings, Site(folder), progress).run()
