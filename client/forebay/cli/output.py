"""Output of results: tables for users, JSON for programs.

Only results are written to standard output; messages are written to standard error. With ``-o json`` a command writes
one JSON document, or one JSON object per line for a stream of results.

All output of the commands is written here, because much of it is foreign text: payloads, keys, reasons, error texts of
remote systems. Control and invisible characters are escaped; markup in data is not interpreted.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from forebay.text import visible, visible_json

if TYPE_CHECKING:
    from rich.table import Table


V = TypeVar("V")
Column = str | Callable[[V], object]
"""Column of a table of values: the name of an attribute, or a function of the value."""


class Output(StrEnum):
    """Format of results."""

    TABLE = "table"
    JSON = "json"


def plain(value: object) -> object:
    """Return the JSON form of a value: dataclasses as objects, times as ISO 8601, bytes as text or base64."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):  # a named tuple
        return {name: plain(part) for name, part in value._asdict().items()}
    match value:
        case bytes():
            return text_of(value)
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case Path():
            return str(value)
        case Mapping():
            return {str(name): plain(item) for name, item in value.items()}
        case str():
            return str(value)
        case Sequence():
            return [plain(item) for item in value]
        case _:
            return value


def text_of(value: bytes) -> str:
    """Return ``value`` as text if it is UTF-8, otherwise as base64 with the prefix ``base64:``."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"base64:{b64encode(value).decode()}"


def write_json(value: object, *, indent: int | None = None) -> None:
    """Write ``value`` as one JSON document on one line, or indented."""
    print(visible_json(json.dumps(plain(value), ensure_ascii=False, indent=indent, default=str)), flush=True)


def write_line(text: str) -> None:
    """Write one line of results."""
    print(visible(text), flush=True)


def write_message(text: str) -> None:
    """Write one message line to standard error."""
    print(visible(text), file=sys.stderr, flush=True)


def write_bytes_line(value: bytes) -> None:
    """Write ``value`` unchanged with a line end; to a terminal, escape it as `write_line` does."""
    if sys.stdout.isatty():
        write_line(text_of(value))
        return
    sys.stdout.buffer.write(value + b"\n")
    sys.stdout.buffer.flush()


def write_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Write a table; columns of numbers are aligned to the right."""
    from rich.console import Console

    console = Console(soft_wrap=False)
    if not console.is_terminal:
        console = Console(width=200)
    console.print(table_of(title, columns, rows))


def write_result(value: object, text: str, output: Output) -> None:
    """Write the result of a command: ``value`` as JSON, or one line of text."""
    if output is Output.JSON:
        write_json(value)
    else:
        write_line(text)


def write_values(values: Sequence[V], output: Output, title: str, columns: Mapping[str, Column[V]]) -> None:
    """Write values as one JSON document, or as a table."""
    if output is Output.JSON:
        write_json(values)
    else:
        write_table(title, tuple(columns), rows_of(values, columns))


def rows_of(values: Iterable[V], columns: Mapping[str, Column[V]]) -> list[tuple[object, ...]]:
    """Return the rows of a table of values."""
    cells = [attrgetter(column) if isinstance(column, str) else column for column in columns.values()]
    return [tuple(cell(value) for cell in cells) for value in values]


def table_of(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """Return the table that `write_table` writes."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    shown = Text(visible(title)) if title else None
    table = Table(title=shown, box=SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    for index, column in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[index], int | float) for row in rows)
        table.add_column(Text(visible(column)), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        # Text, not markup: tags and emoji codes in data are not interpreted.
        table.add_row(*(Text(visible(cell_text(cell))) for cell in row))
    return table


def cell_text(cell: object) -> str:
    """Return the text of a cell: grouped numbers, times to the second, empty for None."""
    match cell:
        case None:
            return ""
        case bool():
            return "yes" if cell else "no"
        case int():
            return f"{cell:,}"
        case float():
            return f"{cell:,.3g}" if abs(cell) < 100 else f"{cell:,.0f}"
        case datetime():
            return cell.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        case bytes():
            return text_of(cell)
        case _:
            return str(cell)


def bytes_text(count: int) -> str:
    """Return a number of bytes with a unit: ``1.5 MiB``."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def seconds_text(seconds: float) -> str:
    """Return a duration with units: ``350 ms``, ``12.0 s``, ``3 min 20 s``, ``2 h 5 min``."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"
