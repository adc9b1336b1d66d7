"""`forebay position ...`: lists and deletes the saved positions of consumers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from forebay.cli.command import Commands
from forebay.cli.manage.confirmation import DryRun, Yes, confirm, preview
from forebay.cli.options import DEFAULT_ENDPOINT, Endpoint, OutputForm, SinkName, connect
from forebay.cli.output import Column, Output, write_result, write_values
from forebay.state.numbers import counted

if TYPE_CHECKING:
    from forebay.client import Client
    from forebay.client.positions.position import PositionKey
    from forebay.client.positions.store import PositionStore

position_app = Commands(
    help="List and delete saved positions of consumers.",
    example="forebay position list\nforebay position delete orders billing --dry-run",
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the consumer.", show_default=False)]
Store = Annotated[str, typer.Option("--store", metavar="URL", help="Store of the positions: broker:, file:///PATH.")]
Namespace = Annotated[str, typer.Option("--namespace", help="Namespace of the positions.")]


@dataclass(frozen=True, slots=True)
class _Row:
    namespace: str
    consumer: str
    sink: str
    kind: str
    """``position``, ``damaged``, or ``write`` for a Spark query that writes, which has no position."""

    partition: int
    offset: int | None
    """Next record to process; None for a write and for a damaged document."""

    behind: int | None
    """Records from the position to the end; None for a write, and in another incarnation of the sink."""

    first_micro_batch: int | None
    """First micro-batch of the query that was seen; None for a position."""

    query: str | None
    """ID of the query of a write."""

    epoch: int | None
    """Consumers that took the position over, or queries that took the write over, and the first one."""

    saved_at: datetime | None


@position_app.command("list", example="forebay position list")
def list_positions(
    prefix: Annotated[str, typer.Argument(metavar="[PREFIX]", help="Beginning of NAMESPACE/NAME/SINK.")] = "",
    store: Store = "broker:",
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """List saved positions, with the number of records after each."""
    with connect(endpoint) as client, closing(client.position_store(store)) as opened:
        rows = _rows(client, opened, prefix)
    columns: dict[str, Column[_Row]] = {
        "namespace": "namespace",
        "consumer": "consumer",
        "sink": "sink",
        "partition": "partition",
        "offset": lambda row: _NO_OFFSET.get(row.kind, row.offset),
        "behind": _behind,
        "epoch": "epoch",
        "saved": "saved_at",
    }
    write_values(rows, output, "saved positions", columns, optional=("epoch", "namespace", "saved"))


@position_app.command(example="forebay position delete orders billing --dry-run")
def delete(
    sink: SinkName,
    name: Name,
    namespace: Namespace = "default",
    store: Store = "broker:",
    yes: Yes = False,
    dry_run: DryRun = False,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """Delete the positions of a consumer in a sink: it then starts at its start point."""
    with (
        connect(endpoint, sink, is_needed=store.startswith("broker:")) as client,
        closing(client.position_store(store)) as opened,
    ):
        keys = [text for text, _ in _keys(opened, f"{namespace}/{name}/{sink}/")]
        effect = f"delete {counted(len(keys), 'saved position')} of {name} in {sink}"
        if dry_run:
            preview(effect, {"delete": keys}, output)
            return
        if keys:
            confirm(effect, yes=yes, output=output)
        for key in keys:
            opened.delete(key)
    write_result({"deleted": keys}, f"deleted {counted(len(keys), 'position')} of {name}", output)


def _keys(store: PositionStore, prefix: str) -> Iterator[tuple[str, PositionKey]]:
    """Yield the keys of a store; other files in the folder of a store have none."""
    from forebay.client.errors import InvalidArgument
    from forebay.client.positions.position import PositionKey

    for text in store.list(prefix):
        with suppress(ValueError, InvalidArgument):
            yield text, PositionKey.parse(text)


def _rows(client: Client, store: PositionStore, prefix: str) -> list[_Row]:
    from forebay.client.errors import PositionDamaged, SinkNotFound
    from forebay.client.positions.position import SavedPosition

    ends: dict[str, tuple[str, dict[int, int]]] = {}
    rows: list[_Row] = []
    for text, key in _keys(store, prefix):
        named = (key.namespace, key.consumer, key.sink)
        try:
            found = store.read(text)
            if found is None:  # deleted meanwhile
                continue
            saved = SavedPosition.decode(text, found.document)
        except PositionDamaged:
            rows.append(_Row(*named, "damaged", key.partition, None, None, None, None, None, None))
            continue
        if key.sink not in ends:
            try:
                stats = client.sinks.stats(key.sink)
                ends[key.sink] = stats.incarnation, {one.partition: one.next_offset for one in stats.partitions}
            except SinkNotFound:
                ends[key.sink] = "", {}
        incarnation, next_offsets = ends[key.sink]
        is_same = incarnation == saved.incarnation and key.partition in next_offsets
        behind = max(0, next_offsets[key.partition] - saved.offset) if is_same else None
        if key.is_write:
            row = _Row(
                *named, "write", key.partition, None, None, saved.offset, saved.owner, saved.epoch, saved.saved_at
            )
        else:
            place = (*named, "position", key.partition, saved.offset, behind)
            row = _Row(*place, None, None, saved.epoch, saved.saved_at)
        rows.append(row)
    return rows


_NO_OFFSET: Final = {"write": "none: a write", "damaged": "damaged: delete it"}


def _behind(row: _Row) -> object:
    if row.kind == "damaged":
        return None
    if row.kind == "write":
        return f"query {row.query}, from micro-batch {row.first_micro_batch} on"
    return "other sink" if row.behind is None else row.behind
