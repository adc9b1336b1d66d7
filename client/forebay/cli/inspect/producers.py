"""`forebay producers ...`: Spark queries, batches and publishers that write to a broker."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from forebay.cli.command import Commands
from forebay.cli.completion import sink_names
from forebay.cli.inspect.sinks import listed
from forebay.cli.options import DEFAULT_ENDPOINT, Endpoint, OutputForm, connect
from forebay.cli.output import Column, Figure, Output, bytes_text, write_message, write_values
from forebay.state.numbers import counted

if TYPE_CHECKING:
    from forebay.client import Client, ConnectedStream
    from forebay.client.values.epochs import Producer

producers_app = Commands(
    help="List the producers of the sinks.",
    example="forebay producers list orders",
)

PUBLISH: Final = "Publish"
"""Name of the stream of a publisher."""


@dataclass(frozen=True, slots=True)
class _Row:
    """Producer of a sink."""

    sink: str
    producer: str
    """Write name, ID of the producer of a batch, or ID of a publisher."""

    kind: str
    """``epochs`` for one that commits, else ``publisher``, which the list has while it is connected."""

    last_epoch: int | None
    """Last committed epoch; None before the first, and for a publisher."""

    committed_at: datetime | None
    run: str
    """Newest run of a producer of epochs."""

    ticket: int | None
    staged_tokens: int
    staged_records: int
    staged_bytes: int
    staged_at: datetime | None = None
    """Opening of the oldest staged part."""

    application: str = ""
    """Spark application of a producer of epochs, if it named one."""

    streams: int | None = 0
    """Open streams; None if the caller may not see connections."""

    since: datetime | None = None
    """Opening of its oldest stream."""

    records: int = 0
    """Records received by its open streams."""

    records_per_s: float = 0.0


@producers_app.command("list", example="forebay producers list orders")
def list_producers(
    sink: Annotated[
        str | None, typer.Argument(metavar="[SINK]", help="Only this sink; default: all.", autocompletion=sink_names)
    ] = None,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """List the producers of the sinks: last epoch, staged records, and open streams with their rates.

    Producers of epochs are Spark queries and batches, which the broker remembers. Other publishers are in the list
    while they are connected.
    """
    with connect(endpoint, sink) as client:
        remembered = _remembered(client, sink)
        known = [_of_epochs(name, one) for name, every in remembered.items() for one in every]
        streams = _publish_streams(client, sink)
    rows = _joined(known, streams, remembered)
    columns: dict[str, Column[_Row]] = {
        "sink": "sink",
        "producer": "producer",
        "last epoch": "last_epoch",
        "committed": "committed_at",
        "staged": lambda row: row.staged_records or None,
        "size": lambda row: bytes_text(row.staged_bytes) if row.staged_bytes else None,
        "streams": "streams",
        "per s": lambda row: Figure(f"{row.records_per_s:,.0f}") if row.streams else None,
    }
    write_values(
        rows, output, counted(len(rows), "producer"), columns, optional=("size", "committed", "streams", "staged")
    )


def _remembered(client: Client, sink: str | None) -> dict[str, list[Producer]]:
    """Return the producers of epochs of a sink, or of all. Raises ``SinkNotFound`` for the named one."""

    def ask(name: str) -> list[Producer]:
        return list(client.epochs.list(name))

    return {sink: ask(sink)} if sink is not None else listed(client, ask)


def _of_epochs(sink: str, one: Producer) -> _Row:
    staged = (one.staged_tokens, one.staged_records, one.staged_bytes)
    committed = (one.last_epoch, one.committed_at, one.run, one.ticket)
    return _Row(sink, one.write_name or one.producer, "epochs", *committed, *staged, one.staged_at, one.application)


def _publish_streams(client: Client, sink: str | None) -> list[ConnectedStream] | None:
    """Return the open streams of publishers; None without the right to see connections."""
    from forebay.client.errors import AccessDenied

    endpoints = client.endpoints if sink is None else [client.endpoint_of(sink)]
    try:
        every = [one for endpoint in endpoints for one in client.connections(endpoint)]
    except AccessDenied as error:
        write_message(f"forebay: open streams are not shown: {error}")
        return None
    return [stream for one in every for stream in one.streams if stream.method == PUBLISH]


def _joined(known: Iterable[_Row], streams: Sequence[ConnectedStream] | None, names: Collection[str]) -> list[_Row]:
    """Return the producers of epochs with their open streams, and the other publishers."""
    if streams is None:
        return [replace(row, streams=None) for row in known]
    rows = {(row.sink, row.producer): row for row in known}
    for sink, producer, group in _grouped(streams):
        if sink not in names:
            continue
        row = rows.get((sink, producer)) or _Row(sink, producer, "publisher", None, None, "", None, 0, 0, 0)
        rows[sink, producer] = replace(
            row,
            streams=len(group),
            since=min(one.opened_at for one in group),
            records=sum(one.records for one in group),
            records_per_s=sum(one.records_per_s for one in group),
        )
    return [rows[key] for key in sorted(rows)]


def _grouped(streams: Iterable[ConnectedStream]) -> Iterator[tuple[str, str, list[ConnectedStream]]]:
    groups: dict[tuple[str, str], list[ConnectedStream]] = {}
    for one in streams:
        groups.setdefault((one.sink, one.client_id), []).append(one)
    for (sink, producer), group in groups.items():
        yield sink, producer, group
