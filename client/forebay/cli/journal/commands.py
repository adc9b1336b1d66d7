"""`forebay journal ...`: turn a data directory into a shard, and back."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Annotated

import typer

from forebay.cli.backup.progress import shown_progress
from forebay.cli.command import Commands
from forebay.cli.journal.access import TAKEOVER_AFTER_S, TakeoverAfter, journal_errors, suitable_engine
from forebay.cli.operate.directories import DataDir, quiet, reading
from forebay.cli.options import OutputForm
from forebay.cli.output import Output, bytes_text, write_message, write_result
from forebay.state.numbers import counted

journal_app = Commands(
    help="Turn a data directory into a shard, and back.",
    example="forebay journal import --data-dir forebay-data --journal s3://bucket/orders\n"
    "forebay journal export --journal s3://bucket/orders --data-dir forebay-data",
)

Address = Annotated[
    str,
    typer.Option(
        "--journal",
        envvar="FOREBAY_JOURNAL",
        metavar="ADDRESS",
        help="Journal of the shard: a directory, s3://, gs:// or az://BUCKET/PREFIX, or kafka://HOST:PORT/TOPIC.",
        show_default=False,
    ),
]


@journal_app.command("import", example="forebay journal import --data-dir forebay-data --journal s3://bucket/orders")
def import_directory(data_dir: DataDir, journal: Address, output: OutputForm = Output.TABLE) -> None:
    """Make the store of a stopped broker the first checkpoint of an empty journal.

    The directory is not changed. Start the brokers of the shard on empty directories, and do not serve this one any
    more. An import that was interrupted has no effect until it is run again.
    """
    with journal_errors(journal):
        from forebay.broker.storage.replication.moves.journal_import import import_store
    with reading(data_dir), journal_errors(journal), shown_progress() as show:
        made = import_store(
            suitable_engine(journal),
            data_dir,
            clock_us=lambda: time.time_ns() // 1_000,
            monotonic=time.monotonic,
            on_progress=lambda progress: show(progress.backup, progress.bytes, progress.bytes_done),
        )
    if made.was_complete:
        text = f"{data_dir} was imported into {made.journal} before; nothing was done"
    else:
        text = f"imported {data_dir} into {made.journal}: {counted(made.sinks, 'sink')}, {bytes_text(made.bytes)}"
    write_result(made, text, output)
    if output is Output.TABLE:
        write_message(
            "forebay: start brokers on empty directories with `forebay serve --data-dir NEW --set journal=ADDRESS`; "
            f"do not serve {data_dir} any more"
        )


@journal_app.command("export", example="forebay journal export --journal s3://bucket/orders --data-dir forebay-data")
def export_directory(
    journal: Address,
    data_dir: Annotated[
        Path, typer.Option("--data-dir", help="New data directory; must not exist, or be empty.", show_default=False)
    ],
    takeover_after: TakeoverAfter = TAKEOVER_AFTER_S,
    output: OutputForm = Output.TABLE,
) -> None:
    """End a shard: make its store the data directory of one broker without a journal.

    Stop the brokers of the shard first: a living owner is refused. The export takes the journal over and ends it, so no
    broker confirms anything after it. An export that was interrupted is run again.
    """
    with journal_errors(journal):
        from forebay.broker.storage.replication.moves.journal_export import export_store
    with quiet(), journal_errors(journal):
        made = export_store(
            suitable_engine(journal, must_exist=True),
            data_dir,
            silence_s=takeover_after,
            host=socket.gethostname(),
            clock=time.monotonic,
            wait=time.sleep,
        )
    text = f"exported {made.journal} into {data_dir}: {counted(made.sinks, 'sink')}; the journal has ended"
    if made.was_ended:
        text += " before: serve only one of its exported directories"
    write_result(made, text, output)
    if output is Output.TABLE:
        write_message(f"forebay: start a broker on it with `forebay serve --data-dir {data_dir}`, without a journal")
