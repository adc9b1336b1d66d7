"""`forebay verify`, `repair` and `quarantine`: what is done with a data directory itself, without a broker."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from forebay.cli.exits import ExitCode
from forebay.cli.extras import needed_for
from forebay.cli.options import OutputForm
from forebay.cli.output import Output, say, tell, write_json, write_table
from forebay.cli.report import CommandFailed

if TYPE_CHECKING:
    from forebay.broker.storage.repair.command import Report

DataDir = Annotated[Path, typer.Option("--data-dir", help="The broker's directory.", show_default=False)]
COLUMNS: Final = ("sink", "partition", "earliest", "next", "records", "pages", "bytes", "damaged pages", "lost records")
quarantine_app = typer.Typer(no_args_is_help=True, help="Damaged pages that were kept aside.")


@contextmanager
def _reading(directory: Path) -> Iterator[None]:
    """A directory that is there; what is logged about damage is in the result already."""
    if not (directory / "FORMAT").exists() and not (directory / "db").is_dir():
        raise CommandFailed(f"{directory}: no data directory of a broker", ExitCode.NOT_FOUND)
    logger = logging.getLogger("forebay")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


def verify(data_dir: DataDir, output: OutputForm = Output.TABLE) -> None:
    """Compare everything in a directory that no broker uses: exit code 0 clean, 1 damage found, 2 not readable.

    Nothing is changed. Every page is read.
    """
    with needed_for("this command", "broker"):
        from forebay.broker.storage.errors import StoreError, StoreLocked
        from forebay.broker.storage.repair.command import verify as run
    with _reading(data_dir):
        try:
            report = run(data_dir)
        except StoreLocked:
            raise
        except StoreError as error:
            raise CommandFailed(str(error), ExitCode.USAGE) from error
    _show(f"{data_dir}", report, output)
    raise typer.Exit(ExitCode.OK if report.clean else ExitCode.FAILED)


def repair(
    data_dir: DataDir,
    into: Annotated[Path, typer.Option("--into", help="A directory that is not there yet.", show_default=False)],
    output: OutputForm = Output.TABLE,
) -> None:
    """Save what can be saved of a directory into a new one; the old one stays as it is."""
    with needed_for("this command", "broker"):
        from forebay.broker.storage.repair.command import repair as run
    if into.exists():
        raise CommandFailed(f"{into} exists: a repair writes into a directory that is not there yet", ExitCode.USAGE)
    with _reading(data_dir):
        report = run(data_dir, into)
    _show(f"saved into {into}", report, output)
    if output is Output.TABLE:
        say(f"forebay: start a broker on it with `forebay serve --data-dir {into}`")


@quarantine_app.command("list")
def list_quarantine(data_dir: DataDir, output: OutputForm = Output.TABLE) -> None:
    """List damaged pages that were kept aside; the broker may run meanwhile."""
    with needed_for("this command", "broker"):
        from forebay.broker.storage.repair.quarantine import quarantined
    with _reading(data_dir):
        pages = [page for page, _ in quarantined(data_dir)]
    if output is Output.JSON:
        write_json(pages)
        return
    columns = ("sink", "partition", "first", "last", "records", "page", "bytes", "cause")
    rows = [
        (one.sink, one.partition, one.first_offset, one.last_offset, one.records, one.number, one.size, one.cause)
        for one in pages
    ]
    write_table(f"quarantine of {data_dir}", columns, rows)


@quarantine_app.command("export")
def export_quarantine(
    data_dir: DataDir,
    into: Annotated[Path, typer.Option("--into", help="A folder; made if missing.", show_default=False)],
    output: OutputForm = Output.TABLE,
) -> None:
    """Write the bytes of damaged pages into files, as they were found: a header of 62 bytes and the records."""
    with needed_for("this command", "broker"):
        from forebay.broker.storage.repair.quarantine import quarantined
    into.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    with _reading(data_dir):
        for page, content in quarantined(data_dir):
            path = into / f"{page.sink}-{page.partition}-{page.first_offset}-{page.last_offset}.page"
            path.write_bytes(content)
            written.append(path)
    if output is Output.JSON:
        write_json(written)
    else:
        write_table(f"exported to {into}", ("file",), [(path.name,) for path in written])


def _show(title: str, report: Report, output: Output) -> None:
    if output is Output.JSON:
        write_json({"clean": report.clean, **{name: getattr(report, name) for name in report.__slots__}})
        return
    rows = [
        (
            *(one.sink, one.partition, one.earliest, one.next_offset, one.records, one.pages, one.size),
            *(one.damaged_pages, one.lost_records),
        )
        for one in report.partitions
    ]
    write_table(title, COLUMNS, rows)
    told = [
        *report.damage,
        *(f"{one.sink}/{one.partition}: {what}" for one in report.partitions for what in one.problems),
    ]
    for line in told:
        tell(line)
    tell("clean" if report.clean else f"{len(told)} findings")
