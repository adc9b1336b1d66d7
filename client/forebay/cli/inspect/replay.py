"""`forebay replay`: reads a sink without changing any state."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.cli.inspect.record_lines import LineForm, LineOutput, write_gap, write_record
from forebay.cli.operate.progress import shown_count, shows_progress
from forebay.cli.options import DEFAULT_ENDPOINT, Endpoint, SinkName, connect
from forebay.cli.times import parse_time

if TYPE_CHECKING:
    from forebay.client import Client


def replay(
    sink: SinkName,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", help="Replay only this partition; default: all in turn.", min=0)
    ] = None,
    start: Annotated[int | None, typer.Option(help="First offset; default: the earliest stored.", min=0)] = None,
    start_time: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Start with records accepted since this time; 30m is 30 minutes ago."),
    ] = None,
    end: Annotated[int | None, typer.Option(help="Stop before this offset; default: the current end.", min=0)] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for new records at the end.")] = False,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: LineOutput = LineForm.TEXT,
) -> None:
    """Replay the records of a sink or of one partition. No position changes."""
    since = None if start_time is None else parse_time(start_time)
    with connect(endpoint, sink) as client:
        from forebay.client import Gap

        items = client.replay(
            sink, partition=partition, start=start, start_time=since, end=end, follow=follow, on_gap="yield"
        )
        is_whole = start is None and since is None and end is None and not follow
        with (
            nullcontext(_ignore)
            if sys.stdout.isatty()
            else shown_count(f"replay {sink}", _total(client, sink, partition) if is_whole else None)
        ) as advance:
            for item in items:
                if isinstance(item, Gap):
                    write_gap(item, output)
                else:
                    write_record(item, output)
                    advance(1)


def _total(client: Client, sink: str, partition: int | None) -> int | None:
    """Return the number of stored records for a bar; None without one. The right to replay is enough."""
    if not shows_progress():
        return None
    parts = client.sinks.stats(sink).partitions
    return sum(one.records for one in parts if partition in {None, one.partition})


def _ignore(count: int) -> None:
    """Count nothing: in a terminal the records themselves show the progress."""
