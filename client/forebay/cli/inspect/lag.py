"""`forebay lag`: state and lag of the sinks, and the cause."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forebay.cli.completion import sink_names
from forebay.cli.exits import ExitCode
from forebay.cli.inspect.lag_lines import (
    ALL_PARTITIONS,
    OPTIONAL,
    PARTITIONS,
    SINKS,
    SUBSCRIPTIONS,
    partition_flow,
    partition_lines,
    sink_line,
    subscription_flow,
    subscription_lines,
)
from forebay.cli.inspect.sinks import stats_of
from forebay.cli.options import DEFAULT_ENDPOINT, Endpoint, OutputForm, connect
from forebay.cli.output import (
    TEXT_MIN,
    Figure,
    Output,
    console_for,
    list_of,
    rows_of,
    seconds_text,
    terminal_width,
    write_json,
    write_rich,
)
from forebay.cli.quantities import duration
from forebay.cli.report import CommandFailed

if TYPE_CHECKING:
    from rich.table import Table

    from forebay.client import PathLag, SinkStats

PATH_COLUMNS = (
    *("reader", "partition", "position", "mode", "for", "switches"),
    *("in memory", "in the store"),
)
PATH_OPTIONAL = ("switches", "position", "for")
"""Columns of `PATH_COLUMNS` that a narrow terminal hides, the first ones first."""


def lag(
    sink: Annotated[
        str | None,
        typer.Argument(metavar="[SINK]", help="Show only this sink; default: all.", autocompletion=sink_names),
    ] = None,
    partitions: Annotated[bool, typer.Option("--partitions", "-p", help="Show one line per partition.")] = False,
    wide: Annotated[
        bool, typer.Option("--wide", "-w", help="Show one line per subscription, with all columns that fit.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Update continuously (requires SINK).")] = False,
    paths: Annotated[
        bool, typer.Option("--paths", help="Show the mode of each reader, and its lag in memory and in the store.")
    ] = False,
    interval_s: Annotated[
        float,
        typer.Option("--interval", metavar="DURATION", parser=duration(0.1, 3600), help="Time between updates."),
    ] = 1.0,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """Show one line per sink: state, waiting records, age of the oldest, rate and time to empty.

    The states: flowing; idle, nothing waits; no consumer, records wait and none is connected; backing off after a
    failed delivery; paused; full, appends are rejected or old records dropped. The rate is that of the last 10 seconds.
    Of several subscriptions the line is about the one that needs attention first.
    """
    if watch and sink is None:
        raise CommandFailed("--watch requires a sink: forebay lag SINK --watch", ExitCode.USAGE)
    with connect(endpoint, sink) as client:
        if watch and sink is not None:
            show_states(
                client.sinks.watch(sink, interval_s=interval_s), output, partitions=partitions, wide=wide, paths=paths
            )
            return
        found = stats_of(client, sink)
    if output is Output.JSON:
        write_json([entry for stats in found for entry in (*entries(stats), *(replays(stats) if paths else ()))])
    else:
        write_rich(lag_table(found, partitions=partitions, wide=wide, paths=paths))


def entries(stats: SinkStats) -> list[dict[str, Any]]:
    """Return the lag as objects, one per subscription and partition."""
    whole = sink_line(stats)
    lines = {line.subscription.name: line for line in subscription_lines(stats)}
    return [
        {
            "sink": stats.name,
            "subscription": subscription.name,
            "partition": part.partition,
            "records": part.pending,
            "bytes": part.pending_bytes,
            "age_s": part.pending_age_s,
            "in_flight": part.in_flight,
            "state": part.state,
            "retry_at": part.retry_at,
            "reason": part.reason,
            "mode": part.mode,
            "mode_s": part.mode_time_s,
            "switches": part.mode_switches,
            "position": part.watermark,
            "realtime": part.realtime_lag,
            "catch_up": part.catch_up_lag,
            "identity_ok": part.identity_ok,
            "flow": partition_flow(subscription, part),
            "subscription_flow": subscription_flow(subscription),
            "sink_flow": whole.flow,
            "consumers": subscription.consumers,
            "appended_per_s": stats.appended_per_s,
            "settled_per_s": subscription.settled_per_s,
            "empty_s": lines[subscription.name].empty_s,
            "limit_used": stats.limit_used,
            "full": stats.full,
        }
        for subscription in stats.subscriptions
        for part in subscription.partitions
    ]


def replays(stats: SinkStats) -> list[dict[str, Any]]:
    """Return the lag of open replays as objects: they have a `reader` instead of a subscription."""
    return [
        {
            "sink": stats.name,
            "reader": one.reader_id,
            "partition": one.partition,
            "records": one.pending,
            "bytes": one.pending_bytes,
            "age_s": one.pending_age_s,
            "mode": one.mode,
            "mode_s": one.mode_time_s,
            "switches": one.mode_switches,
            "position": one.position,
            "realtime": one.realtime_lag,
            "catch_up": one.catch_up_lag,
        }
        for one in stats.replays
    ]


def path_rows(stats: SinkStats) -> list[tuple[object, ...]]:
    """Return mode and lag of the readers as rows of `PATH_COLUMNS`."""
    return [
        (
            f"{entry['sink']}/{entry['subscription']}" if "subscription" in entry else _replay_name(entry),
            entry["partition"],
            entry["position"],
            entry["mode"],
            seconds_text(entry["mode_s"]),
            entry["switches"],
            _path_text(entry["realtime"]),
            _path_text(entry["catch_up"]),
        )
        for entry in (*entries(stats), *replays(stats))
    ]


def _replay_name(entry: dict[str, Any]) -> str:
    return f"{entry['sink']}, replay {entry['reader']}".rstrip()


def _path_text(lag: PathLag) -> Figure:
    return Figure(f"{lag.records:,} of {seconds_text(lag.age_s)}" if lag.records else "0")


def lag_table(
    found: Sequence[SinkStats], *, partitions: bool, wide: bool, paths: bool, width: int | None = None
) -> Table:
    """Return the table of the sinks: one line each, or one per subscription or partition.

    ``width`` is that of the terminal if it is not given.
    """
    if paths:
        rows = [row for stats in found for row in path_rows(stats)]
        return list_of("lag", PATH_COLUMNS, rows, optional=PATH_OPTIONAL, width=width)
    if partitions:
        columns = ALL_PARTITIONS if wide else PARTITIONS
        lines = [line for stats in found for line in partition_lines(stats)]
    elif wide:
        columns = SUBSCRIPTIONS
        lines = [line for stats in found for line in subscription_lines(stats)]
    else:
        columns = SINKS
        lines = [sink_line(stats) for stats in found]
    return list_of("lag", tuple(columns), rows_of(lines, columns), optional=OPTIONAL, legible=TEXT_MIN, width=width)


def show_states(states: Iterable[SinkStats], output: Output, **form: bool) -> None:
    """Show states as they come: in place in a terminal, one after another elsewhere."""
    if output is Output.JSON:
        for stats in states:
            write_json([*entries(stats), *(replays(stats) if form["paths"] else ())])
        return
    if terminal_width() is None:  # nothing can be drawn over: each state is a table of its own
        for stats in states:
            write_rich(lag_table([stats], **form))
        return
    from rich.live import Live

    with Live(console=console_for(lag_table([], **form)), auto_refresh=False) as live:
        for stats in states:
            live.update(lag_table([stats], **form), refresh=True)
