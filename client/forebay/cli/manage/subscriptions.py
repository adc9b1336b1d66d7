"""`forebay subscription ...`: creates, lists, seeks and deletes subscriptions of a sink."""

from __future__ import annotations

from typing import Annotated

import typer

from forebay.cli.command import Commands
from forebay.cli.completion import subscription_names
from forebay.cli.manage.confirmation import DryRun, Yes, confirm, preview
from forebay.cli.manage.position_text import FORMS, OrEarliest, parse_position, position_text
from forebay.cli.manage.refusals import DEFAULT, refusal, subscription_in
from forebay.cli.manage.seek import Seek
from forebay.cli.options import DEFAULT_ENDPOINT, Endpoint, OutputForm, SinkName, Subscription, connect
from forebay.cli.output import Output, write_json, write_list, write_result
from forebay.state.numbers import counted

subscription_app = Commands(
    help="Create, list, seek and delete subscriptions of a sink.",
    example="forebay subscription create orders audit --start earliest\n"
    "forebay subscription seek orders audit --to -2h --dry-run",
)

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="Name of the subscription.", show_default=False, autocompletion=subscription_names
    ),
]
To = Annotated[str, typer.Option("--to", metavar="PLACE", help=f"New position: {FORMS}.", show_default=False)]
Partition = Annotated[int | None, typer.Option("--partition", "-p", help="Only this partition; default: all.", min=0)]


@subscription_app.command(example="forebay subscription create orders audit --start earliest")
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


@subscription_app.command("list", example="forebay subscription list orders")
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
    optional = ("created", "start", "acked", "skipped", "dropped")
    write_list(f"subscriptions of {sink}", columns, rows, optional=optional)


@subscription_app.command(example="forebay subscription delete orders audit --dry-run")
def delete(
    sink: SinkName,
    name: Name,
    yes: Yes = False,
    dry_run: DryRun = False,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """Delete a subscription with its unsettled records."""
    from forebay.errors.reasons import Reason

    with connect(endpoint, sink) as client:
        stats = client.sinks.stats(sink)
        if name == DEFAULT:
            raise refusal(Reason.DEFAULT_SUBSCRIPTION, sink=sink)
        consumers = subscription_in(stats, name).consumers
        pending = stats.pending(name)
        effect = f"delete the subscription {name} of {sink} with {counted(pending, 'unsettled record')}"
        if consumers:
            effect += f", and end its {counted(consumers, 'consumer')}"
        if dry_run:
            preview(effect, {"delete": name, "sink": sink, "pending": pending, "consumers": consumers}, output)
            return
        confirm(effect, yes=yes, output=output)
        client.subscriptions.delete(sink, name, incarnation=stats.incarnation)
    write_result({"deleted": name, "sink": sink}, f"deleted {name}", output)


@subscription_app.command("seek", example="forebay subscription seek orders audit --to -2h")
def seek(
    sink: SinkName,
    name: Name,
    to: To,
    partition: Partition = None,
    or_earliest: OrEarliest = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """Seek a subscription. Deliveries in flight become void; pending records count as skipped."""
    place = parse_position(to)
    with connect(endpoint, sink) as client:
        seeking = Seek(client, sink, name, place, partition, or_earliest)
        seeking.run(yes=yes, dry_run=dry_run, output=output)


def seek_sink(
    sink: SinkName,
    to: To,
    subscription: Subscription = "default",
    partition: Partition = None,
    or_earliest: OrEarliest = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """Seek a subscription of a sink: the same as `forebay subscription seek`."""
    place = parse_position(to)
    with connect(endpoint, sink) as client:
        seeking = Seek(client, sink, subscription, place, partition, or_earliest)
        seeking.run(yes=yes, dry_run=dry_run, output=output)
