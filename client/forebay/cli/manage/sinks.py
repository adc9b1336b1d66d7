"""`forebay sink ...`: creates, shows, updates and deletes sinks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, get_type_hints

import typer

from forebay.cli.command import Commands
from forebay.cli.completion import sink_settings
from forebay.cli.exits import ExitCode
from forebay.cli.manage.confirmation import DryRun, Yes, confirm, preview
from forebay.cli.manage.refusals import check_end, partition_in, refusal
from forebay.cli.manage.settings_text import parse_settings, setting_text
from forebay.cli.options import DEFAULT_ENDPOINT, Endpoint, OutputForm, SinkName, connect
from forebay.cli.output import (
    Column,
    Figure,
    Output,
    bytes_text,
    plain,
    rows_of,
    seconds_text,
    write_json,
    write_list,
    write_result,
    write_table,
    write_values,
)
from forebay.cli.report import CommandFailed
from forebay.cli.times import parse_time, time_text
from forebay.state.numbers import counted
from forebay.text.quantities import size_text

if TYPE_CHECKING:
    from forebay.client import Sink, SinkStats
    from forebay.client.values.explanations import Purged
    from forebay.client.values.sinks import PartitionStats, SubscriptionPartitionStats

sink_app = Commands(
    help="Create, show, update and delete sinks.",
    example="forebay sink create orders --partitions 4\nforebay sink show orders",
)

Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        metavar="NAME=VALUE",
        help="Setting, for example max_total_bytes=10GB. Repeatable.",
        autocompletion=sink_settings,
    ),
]


@sink_app.command(example="forebay sink create orders --partitions 4 -s max_total_bytes=10GB")
def create(
    name: SinkName,
    partitions: Annotated[int | None, typer.Option(help="Number of partitions; can be raised later.")] = None,
    settings: Settings = None,
    shard: Annotated[
        str, typer.Option(metavar="NAME", help="Shard that must have the sink; default: that of its name.")
    ] = "",
    exist_ok: Annotated[
        bool, typer.Option("--exist-ok", help="Succeed if the sink exists with the same settings.")
    ] = False,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """Create a sink."""
    chosen = _settings(settings)
    if partitions is not None:
        chosen["partitions"] = partitions
    with connect(endpoint, name) as client:
        _show_sink(client.sinks.create(name, exist_ok=exist_ok, shard=shard, **chosen), output)


@sink_app.command("list", example="forebay sink list")
def list_sinks(endpoint: Endpoint = DEFAULT_ENDPOINT, output: OutputForm = Output.TABLE) -> None:
    """List all sinks by name."""
    with connect(endpoint) as client:
        found = client.sinks.list()
    columns: dict[str, Column[Sink]] = {
        "sink": "name",
        "partitions": "settings.partitions",
        "overflow": "settings.overflow",
        "max records": lambda sink: sink.settings.max_disk_cache or "unlimited",
        "max bytes": lambda sink: Figure(size_text(sink.settings.max_total_bytes)),
        "created": "created_at",
    }
    write_values(found, output, counted(len(found), "sink"), columns, optional=("created", "overflow", "partitions"))


@sink_app.command(example="forebay sink show orders")
def show(name: SinkName, endpoint: Endpoint = DEFAULT_ENDPOINT, output: OutputForm = Output.TABLE) -> None:
    """Show the settings of a sink, its contents, and the account of each subscription."""
    with connect(endpoint, name) as client:
        sink = client.sinks.get(name)
        stats = client.sinks.stats(name)
    if output is Output.JSON:
        write_json({"sink": sink, "stats": stats})
        return
    _show_sink(sink, output)
    _show_stats(stats)


@sink_app.command(example="forebay sink update orders -s max_age_s=7d")
def update(
    name: SinkName,
    settings: Settings = None,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """Update settings of a sink; unnamed settings stay unchanged."""
    with connect(endpoint, name) as client:
        _show_sink(client.sinks.update(name, **_settings(settings)), output)


@sink_app.command(example="forebay sink delete orders --dry-run")
def delete(
    name: SinkName,
    force: Annotated[bool, typer.Option("--force", help="Delete the sink even if it has unsettled records.")] = False,
    dead_letters: Annotated[
        bool, typer.Option("--dead-letters", help="Delete the dead-letter sink `SINK.dlq` too.")
    ] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """Delete a sink and its records."""
    with connect(endpoint, name) as client:
        stats = client.sinks.stats(name)
        unsettled = max((stats.pending(one.name) for one in stats.subscriptions), default=0)
        stored = counted(stats.records, "stored record")
        effect = f"delete the sink {name} with {stored}, {unsettled:,} of them unsettled"
        if dead_letters:
            effect += f", and {name}.dlq"
        if unsettled and not force:
            effect += " (the broker rejects that without --force)"
        if dry_run:
            facts = {"delete": name, "records": stats.records, "unsettled": unsettled, "dead_letters": dead_letters}
            preview(effect, {**facts, "rejected": bool(unsettled) and not force}, output)
            return
        confirm(effect, yes=yes, output=output)
        client.sinks.delete(name, force=force, dead_letters=dead_letters, incarnation=stats.incarnation)
    write_result({"deleted": name}, f"deleted {name}", output)


@sink_app.command(example="forebay sink pause orders --reason maintenance")
def pause(
    name: SinkName,
    reason: Annotated[str, typer.Option(help="Reason, shown in the stats of the sink.")] = "",
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """Pause the deliveries of a sink; appends continue."""
    with connect(endpoint, name) as client:
        client.sinks.pause(name, reason)
    write_result({"paused": name, "reason": reason}, f"paused {name}", output)


@sink_app.command(example="forebay sink resume orders")
def resume(name: SinkName, endpoint: Endpoint = DEFAULT_ENDPOINT, output: OutputForm = Output.TABLE) -> None:
    """Resume the deliveries of a sink."""
    with connect(endpoint, name) as client:
        client.sinks.resume(name)
    write_result({"resumed": name}, f"resumed {name}", output)


@sink_app.command(example="forebay sink purge orders --until-time 30d --dry-run")
def purge(
    name: SinkName,
    everything: Annotated[bool, typer.Option("--all", help="All stored records.")] = False,
    partition: Annotated[int | None, typer.Option("--partition", "-p", help="Only this partition.", min=0)] = None,
    until_offset: Annotated[
        int | None, typer.Option(metavar="OFFSET", help="Pages that end at or below OFFSET; needs --partition.", min=0)
    ] = None,
    until_time: Annotated[
        str | None, typer.Option(metavar="TIME", help="Pages accepted before this time; 30d is 30 days ago.")
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """Drop records of a sink, oldest first. They are counted, and a gap records them."""
    if [everything, until_offset is not None, until_time is not None].count(True) != 1:
        raise CommandFailed("nothing is selected: pass one of --all, --until-offset and --until-time", ExitCode.USAGE)
    before = None if until_time is None else parse_time(until_time)
    with connect(endpoint, name) as client:
        stats = client.sinks.stats(name)
        records = _purgeable(stats, partition, until_offset)
        exact = "" if everything else "up to "
        accepted = "" if before is None else f" accepted before {time_text(before)}"
        effect = f"drop {exact}{counted(records, 'record')}{accepted} of {name}"
        if dry_run:
            preview(effect, {"purge": name, "records_max": records, "before": before}, output)
            return
        confirm(effect, yes=yes, output=output)
        purged = client.sinks.purge(
            name,
            partition=partition,
            until_offset=until_offset,
            until_time=before,
            end_offsets={one.partition: one.next_offset for one in stats.partitions},
            incarnation=stats.incarnation,
        )
    columns: dict[str, Column[Purged]] = {
        "partition": "partition",
        "records": "records",
        "size": lambda one: bytes_text(one.bytes),
        "pages": "pages",
        "earliest": "earliest_offset",
    }
    write_values(purged, output, f"purged from {name}", columns)


def _purgeable(stats: SinkStats, partition: int | None, until_offset: int | None) -> int:
    """Return the most records that a purge drops. Raises as the purge for what does not exist."""
    from forebay.errors.reasons import Reason

    parts = stats.partitions if partition is None else [partition_in(stats, partition)]
    if until_offset is None:
        return sum(one.records for one in parts)
    if len(parts) > 1:
        raise refusal(Reason.INVALID_RANGE, "until_offset is an offset of one partition: name it", field="partition")
    [part] = parts
    check_end(part, until_offset)
    return min(part.records, max(0, until_offset - part.earliest_offset))


def _settings(pairs: list[str] | None) -> dict[str, Any]:
    from forebay.client import SinkSettings

    return parse_settings(pairs or [], get_type_hints(SinkSettings))


def _show_sink(sink: Sink, output: Output) -> None:
    if output is Output.JSON:
        write_json(sink)
        return
    facts = {"incarnation": sink.incarnation, "created": sink.created_at}
    settings = plain(sink.settings)
    assert isinstance(settings, dict), "a dataclass becomes an object"
    rows = [*facts.items(), *((name, setting_text(name, value)) for name, value in settings.items())]
    write_table(f"sink {sink.name}", ("setting", "value"), rows)


STORED: Final[dict[str, Column[PartitionStats]]] = {
    "partition": "partition",
    "earliest": "earliest_offset",
    "next": "next_offset",
    "records": "records",
    "in memory": "memory_records",
    "durability": "durability",
    "size": lambda part: bytes_text(part.bytes),
    "pages": "pages",
    "dropped": lambda part: sum(part.dropped.values()),
}
STORED_OPTIONAL: Final = ("pages", "in memory", "dropped", "size")
ACCOUNT: Final[dict[str, Column[SubscriptionPartitionStats]]] = {
    "partition": "partition",
    "state": "state",
    "acked": "acked",
    "dead letters": "dead_lettered",
    "dropped": "dropped",
    "skipped": "skipped",
    "pending": "pending",
    "retry queue": "parked_records",
    "oldest": lambda part: seconds_text(part.pending_age_s),
}

ACCOUNT_OPTIONAL: Final = ("retry queue", "skipped", "dropped", "dead letters", "acked", "oldest")


def _show_stats(stats: SinkStats) -> None:
    write_list("stored", tuple(STORED), rows_of(stats.partitions, STORED), optional=STORED_OPTIONAL)
    write_list(
        "accounts" if stats.identity_ok else "accounts (inconsistent)",
        ("subscription", *ACCOUNT),
        [(each.name, *row) for each in stats.subscriptions for row in rows_of(each.partitions, ACCOUNT)],
        optional=ACCOUNT_OPTIONAL,
    )
