"""`forebay replay`: reads a sink again and changes nothing."""

from __future__ import annotations

from typing import Annotated

import typer

from forebay.cli.inspect.record_lines import LineForm, LineOutput, write_gap, write_record
from forebay.cli.options import DEFAULT_ENDPOINT, Endpoint, SinkName, connect
from forebay.cli.times import parse_time


def replay(
    sink: SinkName,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", help="Partition; else all, one after another.", min=0)
    ] = None,
    start: Annotated[int | None, typer.Option(help="First offset; else the earliest that is stored.", min=0)] = None,
    start_time: Annotated[
        str | None, typer.Option(metavar="TIME", help="Begin with what came at or after this time (ISO 8601).")
    ] = None,
    end: Annotated[
        int | None, typer.Option(help="Stop before this offset; else at the end as it is now.", min=0)
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for new records at the end.")] = False,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: LineOutput = LineForm.TEXT,
) -> None:
    """Read the records of a sink again, or of a partition. Nobody's position changes."""
    since = None if start_time is None else parse_time(start_time)
    with connect(endpoint) as client:
        from forebay.client import Gap

        for item in client.replay(
            sink, partition=partition, start=start, start_time=since, end=end, follow=follow, on_gap="yield"
        ):
            if isinstance(item, Gap):
                write_gap(item, output)
            else:
                write_record(item, output)
