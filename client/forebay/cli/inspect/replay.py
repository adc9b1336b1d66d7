"""`forebay replay`: reads a sink without changing any state."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.cli.inspect.record_lines import LineForm, LineOutput, write_gap, write_record
from forebay.cli.operate.progress import shown_count, shows_progress
from forebay.cli.options import DEFAULT_ENDPOINT, Endpoint, SinkName, connect
from forebay.cli.times import parse_time

if TYPE_CHECKING:
    from forebay.client import Client
    from forebay.client.values.sinks import PartitionStats


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
        is_bounded = since is None and not follow
        with (
            nullcontext(_ignore)
            if sys.stdout.isatty()
            else shown_count(f"replay {sink}", _total(client, sink, partition, start, end) if is_bounded else None)
        ) as advance:
            for item in items:
                if isinstance(item, Gap):
                    write_gap(item, output)
                else:
                    write_record(item, output)
                    advance(1)


def _total(client: Client, sink: str, partition: int | None, start: int | None, end: int | None) -> int | None:
    """Return the number of records for a bar; None without one. The right to replay is enough."""
    if not shows_progress():
        return None
    parts = client.sinks.stats(sink).partitions
    return records_within([one for one in parts if partition in {None, one.partition}], start, end)


def records_within(parts: Sequence[PartitionStats], start: int | None, end: int | None) -> int | None:
    """Return the number of records within bounds of each partition.

    None where it is not known: there are bounds, and records are missing between the first and the last one.
    """
    if start is None and end is None:
        return sum(one.records for one in parts)
    if any(one.records != one.next_offset - one.earliest_offset for one in parts):
        return None
    return sum(len(range(*_within(one, start, end))) for one in parts)


def _within(part: PartitionStats, start: int | None, end: int | None) -> tuple[int, int]:
    """Return the first offset and the end of what bounds leave of a partition."""
    first = part.earliest_offset if start is None else max(start, part.earliest_offset)
    return first, part.next_offset if end is None else min(end, part.next_offset)


def _ignore(count: int) -> None:
    """Count nothing: in a terminal the records themselves show the progress."""
