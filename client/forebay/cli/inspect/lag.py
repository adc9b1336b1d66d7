"""`forebay lag`: lag of the subscriptions, and its cause."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forebay.cli.options import DEFAULT_ENDPOINT, Endpoint, OutputForm, connect
from forebay.cli.output import Output, bytes_text, seconds_text, table_of, write_json, write_table

if TYPE_CHECKING:
    from forebay.client import PathLag, SinkStats

COLUMNS = ("sink", "subscription", "partition", "lag", "size", "oldest", "in flight", "state", "next attempt", "reason")

PATH_COLUMNS = (
    *("sink", "subscription", "partition", "position", "mode", "for", "switches"),
    *("lag in memory", "lag in the store"),
)


def lag(
    sink: Annotated[str | None, typer.Argument(metavar="[SINK]", help="Show only this sink; default: all.")] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Update continuously (requires SINK).")] = False,
    paths: Annotated[
        bool, typer.Option("--paths", help="Show the mode of each reader, and its lag in memory and in the store.")
    ] = False,
    interval_s: Annotated[float, typer.Option(help="Seconds between updates.", min=0.1, max=3600)] = 1.0,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """Show how many records wait for delivery, the age of the oldest, and what delays them."""
    with connect(endpoint) as client:
        if watch and sink is not None:
            _watch(client.sinks.watch(sink, interval_s=interval_s), output, paths=paths)
            return
        names = [sink] if sink is not None else [found.name for found in client.sinks.list()]
        found = [client.sinks.stats(name) for name in names]
    if output is Output.JSON:
        write_json([entry for stats in found for entry in entries(stats)])
    else:
        write_table("lag", *_table(found, paths=paths))


def entries(stats: SinkStats) -> list[dict[str, Any]]:
    """Return the lag as objects, one per subscription and partition."""
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
        }
        for subscription in stats.subscriptions
        for part in subscription.partitions
    ]


def rows(stats: SinkStats) -> list[tuple[object, ...]]:
    """Return the lag as rows of `COLUMNS`."""
    return [
        (
            entry["sink"],
            entry["subscription"],
            entry["partition"],
            entry["records"],
            bytes_text(entry["bytes"]),
            seconds_text(entry["age_s"]),
            entry["in_flight"],
            entry["state"],
            entry["retry_at"],
            entry["reason"],
        )
        for entry in entries(stats)
    ]


def path_rows(stats: SinkStats) -> list[tuple[object, ...]]:
    """Return mode and lag of the readers as rows of `PATH_COLUMNS`."""
    return [
        (
            entry["sink"],
            entry["subscription"],
            entry["partition"],
            entry["position"],
            entry["mode"],
            seconds_text(entry["mode_s"]),
            entry["switches"],
            _path_text(entry["realtime"]),
            _path_text(entry["catch_up"]),
        )
        for entry in entries(stats)
    ]


def _path_text(lag: PathLag) -> str:
    return f"{lag.records}, {bytes_text(lag.bytes)}, {seconds_text(lag.age_s)}"


def _table(found: Iterable[SinkStats], *, paths: bool) -> tuple[Sequence[str], list[tuple[object, ...]]]:
    columns, rows_of = (PATH_COLUMNS, path_rows) if paths else (COLUMNS, rows)
    return columns, [row for stats in found for row in rows_of(stats)]


def _watch(states: Iterable[SinkStats], output: Output, *, paths: bool) -> None:
    if output is Output.JSON:
        for stats in states:
            write_json(entries(stats))
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(), auto_refresh=False) as live:
        for stats in states:
            live.update(table_of("", *_table([stats], paths=paths)), refresh=True)
