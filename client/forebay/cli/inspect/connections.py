"""`forebay connections`: who is connected to a broker, and what each stream does."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from forebay.cli.options import DEFAULT_ENDPOINT, Endpoint, OutputForm, connect
from forebay.cli.output import Figure, Output, bytes_text, seconds_text, write_json, write_list
from forebay.state.numbers import counted

if TYPE_CHECKING:
    from forebay.client import ConnectedStream, Connection

COLUMNS = ("peer", "call", "sink", "client", "as", "records", "per s", "in flight", "lag", "mode", "held", "for")
OPTIONAL = ("held", "mode", "as", "for", "lag", "client", "in flight", "records")
"""Columns that a narrow terminal hides, the first ones first."""

_MODES = {"REALTIME": "realtime", "CATCH_UP": "catch up"}


def connections(endpoint: Endpoint = DEFAULT_ENDPOINT, output: OutputForm = Output.TABLE) -> None:
    """Show the connections of a broker with their open streams: who publishes, consumes and reads what."""
    with connect(endpoint) as client:
        found = list(client.connections())
        now = client.info().now or datetime.now(UTC)  # by the clock of the broker, as the beginning of each
    if output is Output.JSON:
        write_json(found)
        return
    rows = [row for one in found for row in _rows(one, now)]
    write_list(f"connections of {endpoint}", COLUMNS, rows, optional=OPTIONAL)


def _rows(connection: Connection, now: datetime) -> Iterator[tuple[object, ...]]:
    if not connection.streams:
        call = counted(connection.open_calls, "call") if connection.open_calls else "idle"
        age = "" if connection.opened_at is None else _age(connection.opened_at, now)
        yield (connection.peer, call, *[""] * (len(COLUMNS) - 3), age)
    for stream in connection.streams:
        yield _row(connection.peer, stream, now)


def _row(peer: str, stream: ConnectedStream, now: datetime) -> tuple[object, ...]:
    sink = f"{stream.sink}/{stream.subscription}" if stream.subscription else stream.sink
    is_consumer = stream.method == "Deliver"
    is_replay = stream.partition is not None
    if is_replay:
        sink = f"{sink} [{stream.partition}]"
    return (
        peer,
        stream.method,
        sink,
        stream.client_id,
        stream.principal,
        stream.records,
        Figure(f"{stream.records_per_s:,.0f}"),
        Figure(f"{stream.in_flight:,}/{stream.credit_records:,}") if is_consumer else "",
        Figure(f"{stream.lag_records:,} at {stream.position:,}") if is_replay else "",
        _MODES.get(stream.mode.value, ""),
        bytes_text(stream.held_bytes),
        _age(stream.opened_at, now),
    )


def _age(since: datetime, now: datetime) -> Figure:
    return seconds_text(max(0.0, (now - since).total_seconds()))
