"""`forebay verify`, `repair` and `quarantine`: operations on a data directory without a broker."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from forebay.cli.command import Commands
from forebay.cli.exits import ExitCode
from forebay.cli.extras import needed_for
from forebay.cli.operate.progress import shown_partitions
from forebay.cli.options import OutputForm
from forebay.cli.output import (
    Column,
    Output,
    bytes_text,
    rows_of,
    write_json,
    write_line,
    write_list,
    write_message,
    write_values,
)
from forebay.cli.report import CommandFailed, store_failed
from forebay.state.numbers import counted

if TYPE_CHECKING:
    from forebay.broker.storage.repair.command import Report
    from forebay.broker.storage.repair.quarantine import Quarantined
    from forebay.broker.storage.repair.verification import PartitionReport

DataDir = Annotated[Path, typer.Option("--data-dir", help="Data directory of the broker.", show_default=False)]
COLUMNS: Final[dict[str, Column[PartitionReport]]] = {
    "sink": "sink",
    "partition": "partition",
    "earliest": "earliest",
    "next": "next_offset",
    "records": "records",
    "pages": "pages",
    "size": lambda part: bytes_text(part.size),
    "damaged pages": "damaged_pages",
    "lost records": "lost_records",
}
OPTIONAL: Final = ("pages", "size", "earliest", "next")
"""Columns that a narrow terminal hides, the first ones first."""
quarantine_app = Commands(
    help="List and export quarantined pages.",
    example="forebay quarantine list --data-dir forebay-data\n"
    "forebay quarantine export --data-dir forebay-data --into pages",
)


@contextmanager
def reading(directory: Path) -> Iterator[None]:
    """Check that the directory exists, and suppress log messages that repeat the result.

    Raises `CommandFailed`, for an error of the file system, too.
    """
    try:
        if not directory.exists():
            raise CommandFailed(f"{directory} does not exist: pass the data directory of a broker", ExitCode.NOT_FOUND)
        if not (directory / "FORMAT").exists() and not (directory / "db").is_dir():
            raise CommandFailed(f"{directory}: not a data directory of a broker", ExitCode.NOT_FOUND)
        with quiet():
            yield
    except OSError as error:
        raise CommandFailed(_text_of(error, directory)) from error


def _text_of(error: OSError, directory: Path) -> str:
    """Return the text of an error of the file system, with the file or the directory."""
    return f"{error.filename or directory}: {error.strerror or error}"


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress log messages that repeat the result of a command."""
    logger = logging.getLogger("forebay")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


def verify(data_dir: DataDir, output: OutputForm = Output.TABLE) -> None:
    """Verify all data in a directory that no broker uses; exit code 0 clean, 1 damaged, 2 unreadable.

    Every page is read. Nothing is changed but the file `verified`, which has the time and the result.
    """
    with needed_for("this command", "broker"):
        from forebay.broker.core.last_check import LastCheck
        from forebay.broker.storage.errors import StoreError, StoreLocked
        from forebay.broker.storage.repair.command import verify as run
        from forebay.broker.storage.repair.last_check import save
    with reading(data_dir):
        try:
            with shown_partitions(f"verify {data_dir}") as show:
                report = run(data_dir, show)
        except StoreLocked:
            raise
        except StoreError as error:
            raise store_failed(error, ExitCode.USAGE) from error
        except OSError as error:
            raise CommandFailed(_text_of(error, data_dir), ExitCode.USAGE) from error
    damaged = sum(one.damaged_pages for one in report.partitions)
    lost = sum(one.lost_records for one in report.partitions)
    try:
        save(data_dir, LastCheck(time.time_ns() // 1_000, len(report.damage), damaged, lost))
    except OSError as error:
        write_message(f"forebay: the result is not recorded in {data_dir}: {error.strerror}")
    _show(f"{data_dir}", report, output)
    raise typer.Exit(ExitCode.OK if report.clean else ExitCode.FAILED)


def repair(
    data_dir: DataDir,
    into: Annotated[Path, typer.Option("--into", help="New directory; must not exist.", show_default=False)],
    output: OutputForm = Output.TABLE,
) -> None:
    """Copy all recoverable data of a directory into a new one; the old directory stays unchanged."""
    with needed_for("this command", "broker"):
        from forebay.broker.storage.repair.command import repair as run
    if into.exists():
        raise CommandFailed(f"{into} exists: pass a directory that does not exist yet", ExitCode.USAGE)
    with reading(data_dir), shown_partitions(f"repair {data_dir}") as show:
        report = run(data_dir, into, show)
    _show(f"saved into {into}", report, output)
    if output is Output.TABLE:
        write_message(f"forebay: start a broker on it with `forebay serve --data-dir {into}`")


@quarantine_app.command("list", example="forebay quarantine list --data-dir forebay-data")
def list_quarantine(data_dir: DataDir, output: OutputForm = Output.TABLE) -> None:
    """List quarantined pages; the broker may be running."""
    with needed_for("this command", "broker"):
        from forebay.broker.storage.repair.quarantine import quarantined
    with reading(data_dir):
        pages = [page for page, _ in quarantined(data_dir)]
    columns: dict[str, Column[Quarantined]] = {
        "sink": "sink",
        "partition": "partition",
        "first": "first_offset",
        "last": "last_offset",
        "records": "records",
        "page": "number",
        "size": lambda page: bytes_text(page.size),
        "cause": "cause",
    }
    write_values(pages, output, f"quarantine of {data_dir}", columns, optional=("page", "size", "cause"))


@quarantine_app.command("export", example="forebay quarantine export --data-dir forebay-data --into pages")
def export_quarantine(
    data_dir: DataDir,
    into: Annotated[Path, typer.Option("--into", help="Folder; created if missing.", show_default=False)],
    output: OutputForm = Output.TABLE,
) -> None:
    """Write the bytes of quarantined pages to files, unchanged: a header of 62 bytes and the records."""
    with needed_for("this command", "broker"):
        from forebay.broker.storage.repair.quarantine import quarantined
    written: list[Path] = []
    with reading(data_dir):
        into.mkdir(parents=True, exist_ok=True)
        for page, content in quarantined(data_dir):
            path = into / f"{page.sink}-{page.partition}-{page.first_offset}-{page.last_offset}.page"
            path.write_bytes(content)
            written.append(path)
    if output is Output.JSON:
        write_json(written)
    else:
        write_list(f"exported to {into}", ("file",), [(path.name,) for path in written])


def _show(title: str, report: Report, output: Output) -> None:
    if output is Output.JSON:
        write_json({"clean": report.clean, **{name: getattr(report, name) for name in report.__slots__}})
        return
    write_list(title, tuple(COLUMNS), rows_of(report.partitions, COLUMNS), optional=OPTIONAL)
    findings = [
        *report.damage,
        *(f"{one.sink}/{one.partition}: {what}" for one in report.partitions for what in one.problems),
    ]
    for line in findings:
        write_line(line)
    write_line("clean" if report.clean else counted(len(findings), "finding"))
