"""`forebay gaps`: what a sink has dropped, why and when."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.cli.options import DEFAULT_ENDPOINT, Endpoint, OutputForm, SinkName, connect
from forebay.cli.output import Output, say, write_json, write_table

if TYPE_CHECKING:
    from forebay.client import Gap

COLUMNS = ("partition", "first", "last", "records", "reasons", "from", "to", "only", "detail")


def gaps(
    sink: SinkName,
    partition: Annotated[int | None, typer.Option("--partition", "-p", help="Only this partition.", min=0)] = None,
    count: Annotated[int, typer.Option("--count", "-n", help="Most gaps.", min=1)] = 1_000,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """Show what is missing from a sink: offsets, how many records, why, and when they were dropped."""
    with connect(endpoint) as client:
        found = list(islice(client.sinks.gaps(sink, partition=partition), count + 1))
    more = len(found) > count
    found = found[:count]
    if output is Output.JSON:
        write_json(found)
    else:
        write_table(f"gaps of {sink}", COLUMNS, [row(gap) for gap in found])
    if more:
        say(f"forebay: there are more than these {count:,}; ask for more with --count")


def row(gap: Gap) -> tuple[object, ...]:
    """A gap as a row of `COLUMNS`; ``only`` names the one subscription whose gap it is."""
    reasons = ", ".join(reason if len(gap.counts) == 1 else f"{reason} {n:,}" for reason, n in gap.counts.items())
    records = sum(gap.counts.values())
    return (
        gap.partition,
        gap.first_offset,
        gap.last_offset,
        f"at most {records:,}" if gap.at_most else records,
        reasons or gap.reason,
        gap.first_at or gap.at,
        gap.at,
        gap.subscription,
        gap.detail,
    )
