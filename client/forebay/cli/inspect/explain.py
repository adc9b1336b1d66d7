"""`forebay explain`: location, state and delivery of a record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from forebay.cli.options import DEFAULT_ENDPOINT, Endpoint, OutputForm, SinkName, Subscription, connect
from forebay.cli.output import Output, bytes_text, write_json, write_table, write_text

if TYPE_CHECKING:
    from forebay.client import Explanation


def explain(
    sink: SinkName,
    offset: Annotated[int, typer.Argument(metavar="OFFSET", help="Offset of the record.", min=0)],
    partition: Annotated[int, typer.Option("--partition", "-p", help="Partition.", min=0)] = 0,
    subscription: Subscription = "default",
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """Show where a record is, its state, and what its delivery waits for."""
    with connect(endpoint, sink) as client:
        found = client.sinks.explain(sink, offset, partition=partition, subscription=subscription)
    if output is Output.JSON:
        write_json(found)
        return
    write_text(found.text)
    write_table(f"{sink}, partition {partition}, offset {offset}", ("fact", "value"), rows(found))


def rows(found: Explanation) -> list[tuple[str, object]]:
    """Return the known facts as names and values."""
    page = None if found.page is None else f"{found.page[0]} to {found.page[1]}, {bytes_text(found.page_bytes)}"
    flight = found.flight
    facts: list[tuple[str, object]] = [
        ("location", found.place),
        ("accepted", found.accepted_at),
        ("page", page),
        ("trace", found.trace_id or None),
        ("subscription", found.subscription),
        ("state", found.state),
        ("consumer", None if flight is None else flight.consumer_id),
        ("sent", None if flight is None else flight.sent_at),
        ("holder", None if found.lease is None else found.lease.holder),
        ("leased", None if found.lease is None else found.lease.taken_at),
        ("failed attempts", found.attempts or None),
        ("delivered before", found.delivered_before),
        ("waits for", found.wait),
        ("until", found.wait_until),
        ("wait detail", found.wait_detail or None),
        ("records before", found.records_before),
        ("watermark", found.watermark),
    ]
    for gap in (found.gap, found.rejection):
        if gap is not None:
            dropped = ", ".join(f"{reason} {records:,}" for reason, records in gap.counts.items())
            facts += [
                ("gap", f"{gap.first_offset} to {gap.last_offset}"),
                ("dropped", dropped),
                ("dropped at", gap.at),
                ("dropped by", gap.subscription or None),
                ("detail", gap.detail or None),
            ]
    return [(name, value if isinstance(value, bool) else _cell(value)) for name, value in facts if value is not None]


def _cell(value: object) -> object:
    return str(value) if isinstance(value, int) else value
