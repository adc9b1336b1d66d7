"""`forebay peek`: shows a few records without delivering them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from forebay.cli.options import DEFAULT_ENDPOINT, Endpoint, OutputForm, SinkName, connect
from forebay.cli.output import Column, Output, bytes_text, write_values

if TYPE_CHECKING:
    from forebay.client import PeekedRecord

MARK: Final = " [truncated]"


def peek(
    sink: SinkName,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", help="Partition; default: all, with --offset 0.", min=0)
    ] = None,
    offset: Annotated[
        int | None, typer.Option(help="First offset; default: the first unsettled record.", min=0)
    ] = None,
    count: Annotated[int, typer.Option("--count", "-n", help="Maximum number of records.", min=1, max=1000)] = 10,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """Show a few records, the oldest that wait in each partition, without changing any state."""
    if offset is not None and partition is None:
        partition = 0
    with connect(endpoint, sink) as client:
        records = client.peek(sink, partition=partition, offset=offset, max_records=count)
    columns: dict[str, Column[PeekedRecord]] = {
        "partition": "partition",
        "offset": "offset",
        "accepted": "accepted_at",
        "key": "key",
        "value": _shown,
        "size": lambda record: bytes_text(record.value_bytes),
    }
    write_values(records, output, sink if partition is None else f"{sink}, partition {partition}", columns)


def _shown(record: PeekedRecord) -> str:
    if record.format == "unreadable":
        return f"cannot be decoded: {record.value}"
    return f"{record.value}{MARK}" if record.truncated else record.value
