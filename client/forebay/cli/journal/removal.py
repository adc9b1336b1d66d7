"""`forebay shard remove`: removes a shard whose brokers are stopped, by its journal."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from forebay.cli.exits import ExitCode
from forebay.cli.journal.access import TAKEOVER_AFTER_S, TakeoverAfter, journal_errors, no_journal
from forebay.cli.manage.confirmation import DryRun, Yes, confirm, preview
from forebay.cli.operate.directories import quiet
from forebay.cli.options import OutputForm
from forebay.cli.output import Output, write_message, write_result
from forebay.cli.report import CommandFailed
from forebay.state.numbers import counted


def remove(
    shard: Annotated[str, typer.Argument(metavar="NAME", help="Shard, as `forebay shard list` shows it.")],
    journal: Annotated[
        str,
        typer.Option(
            "--journal",
            envvar="FOREBAY_JOURNAL",
            metavar="ADDRESS",
            help="Setting journal of the brokers: the common address of the fleet.",
            show_default=False,
        ),
    ],
    delete_journal: Annotated[
        bool,
        typer.Option(
            "--delete-journal", help="Delete the journal of the shard too, but for what stops its former owners."
        ),
    ] = False,
    takeover_after: TakeoverAfter = TAKEOVER_AFTER_S,
    yes: Yes = False,
    dry_run: DryRun = False,
    output: OutputForm = Output.TABLE,
) -> None:
    """Remove a shard whose records are settled from its fleet. Stop its brokers first.

    Refused while a sink of the shard has unsettled records, and while a broker owns it. No broker takes the shard over
    afterwards, and its sinks do not exist any more. A removal that was interrupted is run again.
    """
    with journal_errors(journal):
        from forebay.broker.core.shards import SHARD_NAME
        from forebay.broker.storage.replication.engines.addresses import below, open_engine
        from forebay.broker.storage.replication.moves.shard_removal import checked_removal
        from forebay.broker.storage.replication.shard_directory import SHARDS, ShardDirectory
    if not SHARD_NAME.fullmatch(shard):
        raise CommandFailed(f"{shard!r} is no name of a shard: 1 to 63 of a-z, 0-9 and -", ExitCode.USAGE)
    with quiet(), journal_errors(journal), tempfile.TemporaryDirectory(prefix="forebay-") as folder:
        try:
            fleet = open_engine(journal, creates=False)
        except FileNotFoundError as missing:
            raise no_journal(journal) from missing
        try:
            engine = open_engine(below(journal, SHARDS, shard), creates=False)
        except FileNotFoundError:
            engine = None
        with checked_removal(
            ShardDirectory(lambda: fleet),
            engine,
            shard,
            Path(folder),
            fleet=fleet.address,
            silence_s=takeover_after,
            clock=time.monotonic,
            clock_us=lambda: time.time_ns() // 1_000,
            wait=time.sleep,
        ) as removal:
            effect = f"remove the shard {shard} with {counted(removal.sinks, 'sink')} without unsettled records"
            if delete_journal:
                effect += ", and delete its journal"
            if dry_run:
                facts = {"remove": shard, "journal": removal.journal, "sinks": removal.sinks}
                preview(effect, {**facts, "delete_journal": delete_journal}, output)
                return
            confirm(effect, yes=yes, output=output)
            made = removal.remove(deletes_journal=delete_journal)
    text = f"the shard {shard} was removed before" if made.was_removed else f"removed the shard {shard}"
    if made.journal_deleted:
        text += "; its journal is deleted"
    write_result(made, text, output)
    if output is Output.TABLE and made.journal and not made.journal_deleted:
        write_message(f"forebay: its journal is still at {made.journal}; --delete-journal deletes it")
