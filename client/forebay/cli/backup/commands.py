"""`forebay backup ...`: create, list, verify, restore and prune backups."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from forebay.cli.backup.choices import DamageChoice
from forebay.cli.backup.progress import shown_phases, shown_progress
from forebay.cli.backup.single_sink import CopiedPartition, CopiedSink, restore_sink
from forebay.cli.command import Commands
from forebay.cli.exits import ExitCode
from forebay.cli.extras import needed_for
from forebay.cli.manage.confirmation import DryRun, Yes, confirm, preview
from forebay.cli.operate.directories import quiet
from forebay.cli.options import DEFAULT_ENDPOINT, Endpoint, OutputForm, connect
from forebay.cli.output import (
    Column,
    Figure,
    Output,
    Whole,
    bytes_text,
    rows_of,
    seconds_text,
    write_json,
    write_line,
    write_list,
    write_message,
    write_result,
    write_values,
)
from forebay.cli.quantities import duration
from forebay.cli.report import CommandFailed, store_problem
from forebay.cli.times import time_text
from forebay.state.numbers import counted

if TYPE_CHECKING:
    from forebay.broker.storage.backup.catalog import Backup as Listed
    from forebay.broker.storage.backup.catalog import Pruned
    from forebay.broker.storage.backup.manifest import Manifest
    from forebay.broker.storage.backup.restores.restore import RestoreReport
    from forebay.broker.storage.backup.target import Target
    from forebay.broker.storage.repair.verification import PartitionReport
    from forebay.client import Backup

backup_app = Commands(
    help="Create, list, verify, restore and prune backups.",
    example="forebay backup create\n"
    "forebay backup list --target /backups\n"
    "forebay backup restore --target /backups --into forebay-data",
)

TargetName = Annotated[
    str,
    typer.Option("--target", envvar="FOREBAY_BACKUP_TARGET", metavar="TARGET", help="Target that holds the backups."),
]
WorkDir = Annotated[
    Path | None,
    typer.Option("--work-dir", help="Directory for temporary files, with room for the backup.", show_default=False),
]
BackupId = Annotated[str, typer.Option("--id", metavar="ID", help="Backup; the newest complete one if not given.")]


@dataclass(frozen=True, slots=True)
class _Row:
    """Backup of a list."""

    id: str
    state: str
    """``complete``, ``incomplete`` or ``damaged``."""

    taken_at: datetime | None
    parent: str
    bytes: int | None
    transferred_bytes: int | None
    files: int | None
    sinks: int | None
    records: int | None
    store_id: str
    version: str


STORE_SHOWN: Final = 8
"""Characters of the ID of a store in a list."""

LIST_OPTIONAL: Final = ("version", "incremental to", "transferred", "files", "sinks", "taken", "records")
"""Columns of the list that a narrow terminal hides, the first ones first."""


@backup_app.command(example="forebay backup create")
def create(
    full: Annotated[
        bool, typer.Option("--full", help="Transfer all files, not only those that the newest backup lacks.")
    ] = False,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """Back up a running broker into the target of its settings."""
    from forebay.client import Backup

    with connect(endpoint) as client, shown_progress() as show:
        made: Backup | None = None
        for event in client.backups.create(full=full):
            if isinstance(event, Backup):
                made = event
            else:
                show(event.id, event.bytes, event.bytes_done)
    if made is None:
        raise CommandFailed("the broker ended the call before the backup was complete")
    write_result(made, _sentence(made), output)


def _sentence(made: Backup) -> str:
    kind = f"incremental to {made.parent}" if made.parent else "full"
    what = f"{counted(made.sinks, 'sink')}, {counted(made.files, 'file')}, {bytes_text(made.bytes)}"
    speed = bytes_text(round(made.transferred_bytes / made.duration_s)) if made.duration_s else bytes_text(0)
    return (
        f"backup {made.id} is complete ({kind}): {what}, of which {bytes_text(made.transferred_bytes)} "
        f"were transferred in {seconds_text(made.duration_s)} ({speed}/s); "
        f"appends waited {seconds_text(made.stall_s)}"
    )


@backup_app.command("list", example="forebay backup list --target /backups")
def list_backups(target: TargetName = "", output: OutputForm = Output.TABLE) -> None:
    """List the backups of a target, the oldest first; no broker is needed.

    Where they are of several stores, the table shows the first characters of their IDs.
    """
    opened = _opened(target)
    from forebay.broker.storage.backup.catalog import list_backups as run

    columns: dict[str, Column[_Row]] = {
        "backup": lambda one: Whole(one.id),
        "state": "state",
        "taken": "taken_at",
        "incremental to": "parent",
        "size": lambda one: _size(one.bytes),
        "transferred": lambda one: _size(one.transferred_bytes),
        "files": "files",
        "sinks": "sinks",
        "records": "records",
        "version": "version",
    }
    rows = [_row(one) for one in run(opened)]
    if len({row.store_id for row in rows if row.store_id}) > 1:
        columns = {"backup": columns.pop("backup"), "store": lambda one: Whole(one.store_id[:STORE_SHOWN]), **columns}
    write_values(rows, output, f"backups in {target}", columns, optional=LIST_OPTIONAL)


def _size(count: int | None) -> Figure | None:
    return None if count is None else bytes_text(count)


def _row(backup: Listed) -> _Row:
    found = backup.manifest
    if found is None:
        state = "damaged" if backup.damage else "incomplete"
        return _Row(backup.id, state, None, backup.parent, None, None, None, None, None, "", "")
    records = sum(part.records for sink in found.sinks for part in sink.partitions)
    counts = (found.size, found.transferred_bytes, len(found.pieces), len(found.sinks), records)
    return _Row(found.id, "complete", _time(found.taken_at_us), found.parent, *counts, found.store_id, found.version)


@backup_app.command(example="forebay backup verify --target s3://bucket/forebay")
def verify(
    target: TargetName = "",
    backup: BackupId = "",
    work_dir: WorkDir = None,
    output: OutputForm = Output.TABLE,
) -> None:
    """Restore a backup into a temporary directory, read everything and compare it with the manifest.

    Exit code 0 clean, 1 damaged.
    """
    opened, manifest = _found(target, backup)
    from forebay.broker.storage.backup.restores.restore import verify_backup

    with quiet(), shown_phases(f"read {manifest.id}", f"verify {manifest.id}") as (on_bytes, on_partition):
        report = verify_backup(opened, manifest, work_dir=work_dir, on_bytes=on_bytes, on_partition=on_partition)
    if output is Output.JSON:
        write_json({"clean": report.clean, **{name: getattr(report, name) for name in report.__slots__}})
    else:
        columns: dict[str, Column[PartitionReport]] = {
            "sink": "sink",
            "partition": "partition",
            "earliest": "earliest",
            "next": "next_offset",
            "records": "records",
            "pages": "pages",
            "size": lambda part: bytes_text(part.size),
        }
        rows = rows_of(report.partitions, columns)
        write_list(f"backup {manifest.id}", tuple(columns), rows, optional=("pages", "size", "earliest"))
        for problem in report.problems:
            write_line(problem)
        write_line("clean" if report.clean else counted(len(report.problems), "finding"))
    raise typer.Exit(ExitCode.OK if report.clean else ExitCode.FAILED)


@backup_app.command(example="forebay backup restore --target /backups --into forebay-data")
def restore(
    into: Annotated[
        Path | None, typer.Option("--into", help="New data directory; must not exist.", show_default=False)
    ] = None,
    target: TargetName = "",
    backup: BackupId = "",
    sink: Annotated[
        str, typer.Option("--sink", metavar="SINK", help="Restore one sink into a running broker, with --as.")
    ] = "",
    restored_as: Annotated[str, typer.Option("--as", metavar="NAME", help="New name of that sink.")] = "",
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    work_dir: WorkDir = None,
    on_damage: Annotated[
        DamageChoice,
        typer.Option(
            "--on-damage",
            help="For a damaged file: restore nothing, skip its damaged pages, or remove all of its pages.",
        ),
    ] = DamageChoice.STOP,
    output: OutputForm = Output.TABLE,
) -> None:
    """Restore a backup into a new data directory, or one sink of it into a running broker."""
    if (into is None) != bool(sink) or bool(sink) != bool(restored_as):
        raise CommandFailed("pass --into DIR, or --sink SINK with --as NAME", ExitCode.USAGE)
    opened, manifest = _found(target, backup)
    from forebay.broker.storage.backup.restores.restore import OnDamage

    damage = OnDamage(on_damage.value)
    if into is None:
        with (
            connect(endpoint) as client,
            shown_phases(f"read {manifest.id}", f"restore {sink} as {restored_as}") as (on_bytes, on_partition),
        ):
            copied = restore_sink(
                opened,
                manifest,
                client,
                sink=sink,
                restored_as=restored_as,
                on_damage=damage,
                work_dir=work_dir,
                on_bytes=on_bytes,
                on_partition=on_partition,
            )
        _show_sink(copied, output)
        return
    from forebay.broker.storage.backup.restores.restore import restore as run

    with shown_progress() as show:
        report = run(
            opened,
            manifest,
            into,
            on_damage=damage,
            store_id=secrets.token_hex(16),
            at_us=time.time_ns() // 1_000,
            on_bytes=partial(show, f"restore {manifest.id}"),
        )
    if output is Output.JSON:
        write_json(report)
    else:
        _show_restore(report)
        write_message(f"forebay: start a broker on it with `forebay serve --data-dir {into}`")


def _show_sink(copied: CopiedSink, output: Output) -> None:
    if output is Output.JSON:
        write_json(copied)
        return
    columns: dict[str, Column[CopiedPartition]] = {
        "partition": "partition",
        "records": "records",
        "first offset": "first_offset",
        "last offset": "last_offset",
        "missing": "missing",
    }
    title = f"{copied.sink} of backup {copied.backup} as {copied.restored_as}"
    write_list(title, tuple(columns), rows_of(copied.partitions, columns))
    for line in (*copied.damaged, *copied.repaired):
        write_line(line)


def _show_restore(report: RestoreReport) -> None:
    rows = [
        (sink.name, part.partition, part.records, part.end, part.resumes_at)
        for sink in report.sinks
        for part in sink.partitions
    ]
    title = f"backup {report.backup} of {time_text(_time(report.taken_at_us))}"
    write_list(title, ("sink", "partition", "records", "end of the backup", "continues at"), rows)
    again = [(sink.name, one.name, one.unsettled) for sink in report.sinks for one in sink.subscriptions]
    write_list("subscriptions", ("sink", "subscription", "records to deliver"), again)
    writers = [(sink.name, one.write_name, one.producer, one.epoch) for sink in report.sinks for one in sink.producers]
    if writers:
        write_list("writers of epochs", ("sink", "write name", "producer", "last epoch"), writers)
    publishers = [(sink.name, sink.writers) for sink in report.sinks if sink.writers]
    if publishers:
        write_list("publishers", ("sink", "may continue"), publishers)
    for line in (*report.damaged, *report.repaired):
        write_line(line)
    positions = counted(report.positions, "saved position")
    write_line(f"restored into {report.directory}, as store {report.store_id}, with {positions}")


@backup_app.command(example="forebay backup prune --target /backups --keep-last 7 --dry-run")
def prune(
    target: TargetName = "",
    keep_last: Annotated[
        int, typer.Option("--keep-last", min=1, help="Number of newest backups to keep, of each store.")
    ] = 7,
    keep_days: Annotated[
        float,
        typer.Option(
            "--keep-days",
            metavar="DURATION",
            parser=duration(unit_s=86_400),
            help="Keep those that are younger, too: a number of days, or a duration such as 36h.",
        ),
    ] = 0.0,
    yes: Yes = False,
    dry_run: DryRun = False,
    output: OutputForm = Output.TABLE,
) -> None:
    """Delete old backups, incomplete ones that are a day old, and files that no remaining backup needs."""
    opened = _opened(target)
    from forebay.broker.storage.backup.catalog import prune as prune_backups

    run = partial(prune_backups, opened, now_us=time.time_ns() // 1_000, keep_last=keep_last, keep_days=keep_days)
    if dry_run or not yes:
        found = run(dry_run=True)
        effect = f"delete {_pruned_text(found)}"
        if dry_run:
            preview(effect, {"backups": found.backups, "incomplete": found.incomplete, "files": found.files}, output)
            return
        if found.backups or found.incomplete or found.files:
            confirm(effect, yes=yes, output=output)
    pruned = run()
    text = f"deleted {_pruned_text(pruned)}"
    write_result(pruned, text, output)


def _opened(target: str) -> Target:
    with needed_for("this command", "broker"):
        from forebay.broker.storage.backup.targets import open_target
    if not target:
        raise CommandFailed("name the target: --target, or FOREBAY_BACKUP_TARGET", ExitCode.USAGE)
    return open_target(target, creates=False)


def _found(target: str, backup: str) -> tuple[Target, Manifest]:
    opened = _opened(target)
    from forebay.broker.storage.backup.catalog import find
    from forebay.broker.storage.backup.errors import BackupNotFound

    try:
        return opened, find(opened, backup)
    except BackupNotFound as missing:
        reason, facts = store_problem(missing)
        raise CommandFailed(f"{target}: {missing}", ExitCode.NOT_FOUND, reason=reason, facts=facts) from missing


def _time(at_us: int) -> datetime:
    return datetime.fromtimestamp(at_us / 1_000_000, UTC)


def _pruned_text(found: Pruned) -> str:
    incomplete = counted(len(found.incomplete), "incomplete one")
    return f"{counted(len(found.backups), 'backup')}, {incomplete} and {counted(found.files, 'file')}"
