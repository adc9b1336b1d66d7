"""`forebay schema ...`: versions of the schema of a sink's rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.cli.command import Commands
from forebay.cli.extras import needed_for
from forebay.cli.options import DEFAULT_ENDPOINT, Endpoint, OutputForm, SinkName, connect
from forebay.cli.output import Column, Output, write_json, write_table, write_values
from forebay.cli.report import CommandFailed
from forebay.cli.times import time_text
from forebay.state.numbers import counted
from forebay.text.spark_schema import spark_fields

if TYPE_CHECKING:
    from forebay.client.values.schemas import Schema

schema_app = Commands(
    help="List and show the schemas of a sink's rows.",
    example="forebay schema list orders\nforebay schema show orders 2",
)

Version = Annotated[
    int | None, typer.Argument(metavar="[VERSION]", help="Number of the version; the newest if not given.", min=1)
]


@dataclass(frozen=True, slots=True)
class _Field:
    """Column of a schema."""

    name: str
    """Path of a nested field, with dots."""

    type: str


@schema_app.command("list", example="forebay schema list orders")
def list_schemas(sink: SinkName, endpoint: Endpoint = DEFAULT_ENDPOINT, output: OutputForm = Output.TABLE) -> None:
    """List the versions of the schema of a sink, the oldest first."""
    with connect(endpoint, sink) as client:
        found = client.schemas.list(sink)
    if output is Output.JSON:
        write_json([{"version": one.version, "registered_at": one.registered_at} for one in found])
        return
    columns: dict[str, Column[Schema]] = {
        "version": "version",
        "registered": lambda one: one.registered_at or "lost: the store was damaged",
    }
    write_values(found, output, f"{counted(len(found), 'version')} of the schema of {sink}", columns)


@schema_app.command(example="forebay schema show orders 2")
def show(
    sink: SinkName,
    version: Version = None,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """Show the fields of a version of the schema of a sink."""
    with connect(endpoint, sink) as client:
        found = client.schemas.get(sink, version or 0)
    fields = _fields(found)
    if output is Output.JSON:
        facts = {"sink": sink, "version": found.version, "registered_at": found.registered_at, "fields": fields}
        write_json({**facts, "spark_schema": found.spark_schema, "arrow_schema": found.arrow_schema})
        return
    when = f", registered {time_text(found.registered_at)}" if found.registered_at is not None else ""
    rows = [(one.name, one.type) for one in fields]
    write_table(f"schema of {sink}, version {found.version}{when}", ("field", "type"), rows)


def _fields(schema: Schema) -> list[_Field]:
    try:
        if schema.spark_schema:
            return [_Field(*one) for one in spark_fields(schema.spark_schema)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _unreadable(schema, error) from error
    with needed_for("a schema without the form of Spark", "arrow"):
        from forebay.arrow import read_schema
    try:
        return [_Field(field.name, str(field.type)) for field in read_schema(schema.arrow_schema)]
    except ValueError as error:
        raise _unreadable(schema, error) from error


def _unreadable(schema: Schema, error: Exception) -> CommandFailed:
    return CommandFailed(f"version {schema.version} cannot be read: {type(error).__name__}: {error}")
