"""`forebay gaps`: records that a sink has dropped, with reason and time."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.cli.options import DEFAULT_ENDPOINT, Endpoint, OutputForm, SinkName, connect
from forebay.cli.output import Output, write_json, write_list, write_message
from forebay.state.numbers import counted

if TYPE_CHECKING:
    from forebay.client import Gap

COLUMNS = ("partition", "first", "last", "records", "reasons", "from", "to", "only", "detail")
OPTIONAL = ("detail", "from", "only", "to")
"""Columns that a narrow terminal hides, the first ones first."""


def gaps(
    sink: SinkName,
    partition: Annotated[int | None, typer.Option("--partition", "-p", help="Only this partition.", min=0)] = None,
    count: Annotated[int, typer.Option("--count", "-n", help="Maximum number of gaps.", min=1)] = 1_000,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """Show the gaps of a sink: offsets, number of records, reason and time."""
    with connect(endpoint, sink) as client:
        found = list(islice(client.sinks.gaps(sink, partition=partition), count + 1))
    more = len(found) > count
    found = found[:count]
    if output is Output.JSON:
        write_json(found)
    else:
        write_list(f"gaps of {sink}", COLUMNS, [row(gap) for gap in found], optional=OPTIONAL)
    if more:
        write_message(f"forebay: there are more than {counted(count, 'gap')}; raise --count to show them")


def row(gap: Gap) -> tuple[object, ...]:
    """Return a gap as a row of `COLUMNS`; ``only`` is the subscription of its own gap."""
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
