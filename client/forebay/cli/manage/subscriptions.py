"""`forebay subscription ...`: creates, lists, seeks and deletes subscriptions of a sink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from forebay.cli.command import Commands
from forebay.cli.manage.position_text import FORMS, OrEarliest, parse_position, position_text
from forebay.cli.options import DEFAULT_ENDPOINT, Endpoint, OutputForm, SinkName, Subscription, connect
from forebay.cli.output import Column, Output, write_json, write_result, write_table, write_values

if TYPE_CHECKING:
    from forebay.client import SubscriptionPlace

subscription_app = Commands(no_args_is_help=True, help="Create, list, seek and delete subscriptions of a sink.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the subscription.", show_default=False)]
To = Annotated[str, typer.Option("--to", metavar="PLACE", help=f"New position: {FORMS}.", show_default=False)]
Partition = Annotated[int | None, typer.Option("--partition", "-p", help="Only this partition; default: all.", min=0)]


@subscription_app.command()
def create(
    sink: SinkName,
    name: Name,
    start: Annotated[str, typer.Option("--start", metavar="PLACE", help=f"Start position: {FORMS}.")] = "earliest",
    or_earliest: OrEarliest = False,
    exist_ok: Annotated[bool, typer.Option("--exist-ok", help="Succeed if it exists with the same start.")] = False,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """Create a subscription. The sink then retains the records that it has not settled."""
    place = parse_position(start)
    with connect(endpoint, sink) as client:
        made = client.subscriptions.create(sink, name, start=place, or_earliest=or_earliest, exist_ok=exist_ok)
    write_result(made, f"created {made.name} at {position_text(made.start)}", output)


@subscription_app.command("list")
def list_subscriptions(
    sink: SinkName, endpoint: Endpoint = DEFAULT_ENDPOINT, output: OutputForm = Output.TABLE
) -> None:
    """List the subscriptions of a sink with their positions."""
    with connect(endpoint, sink) as client:
        found = client.subscriptions.list(sink)
        stats = client.sinks.stats(sink)
    if output is Output.JSON:
        write_json(found)
        return
    accounts = {one.name: one for one in stats.subscriptions}
    rows: list[tuple[object, ...]] = []
    for one in found:
        account = accounts.get(one.name)
        parts = account.partitions if account is not None else ()
        rows.append(
            (
                one.name,
                one.created_at,
                position_text(one.start),
                account.consumers if account is not None else 0,
                sum(part.pending for part in parts),
                sum(part.lifetime.acked for part in parts),
                sum(part.lifetime.dropped for part in parts),
                sum(part.lifetime.skipped for part in parts),
            )
        )
    columns = ("subscription", "created", "start", "consumers", "pending", "acked", "dropped", "skipped")
    write_table(f"subscriptions of {sink}", columns, rows)


@subscription_app.command()
def delete(
    sink: SinkName, name: Name, endpoint: Endpoint = DEFAULT_ENDPOINT, output: OutputForm = Output.TABLE
) -> None:
    """Delete a subscription with its unsettled records."""
    with connect(endpoint, sink) as client:
        client.subscriptions.delete(sink, name)
    write_result({"deleted": name, "sink": sink}, f"deleted {name}", output)


@subscription_app.command("seek")
def seek(
    sink: SinkName,
    name: Name,
    to: To,
    partition: Partition = None,
    or_earliest: OrEarliest = False,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """Seek a subscription. Deliveries in flight become void; pending records count as skipped."""
    _seek(sink, name, to, partition, or_earliest, endpoint, output)


def seek_sink(
    sink: SinkName,
    to: To,
    subscription: Subscription = "default",
    partition: Partition = None,
    or_earliest: OrEarliest = False,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """Seek a subscription of a sink: the same as `forebay subscription seek`."""
    _seek(sink, subscription, to, partition, or_earliest, endpoint, output)


def _seek(
    sink: str, name: str, to: str, partition: int | None, or_earliest: bool, endpoint: str, output: Output
) -> None:
    place = parse_position(to)
    with connect(endpoint, sink) as client:
        moved = client.subscriptions.seek(sink, name, to=place, partition=partition, or_earliest=or_earliest)
    columns: dict[str, Column[SubscriptionPlace]] = {
        "partition": "partition",
        "start": "start_offset",
        "trimmed": lambda one: "" if one.trimmed is None else f"{one.trimmed[0]} to {one.trimmed[1]}",
    }
    write_values(moved, output, f"subscription {name}", columns)
