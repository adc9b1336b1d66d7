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
import textwrap
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime, timedelta
from enum import StrEnum
from operator import attrgetter
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from forebay.cli.times import time_text
from forebay.text import visible, visible_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


V = TypeVar("V")
Column = str | Callable[[V], object]
"""Column of a table of values: the name of an attribute, or a function of the value."""


JSON_MESSAGES: Final = ContextVar("forebay_json_messages", default=False)
"""True if the messages on standard error are JSON objects, too."""

TEXT_MIN: Final = 8
"""Characters of a column of text that are shown in the narrowest terminal."""
CELL_PADDING: Final = 3
"""Characters between two columns."""


class Figure(str):
    """Text of a number with its unit: aligned to the right in tables, and never broken over lines."""

    __slots__ = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Styled:
    """Cell of a table in a style of its own; only for text of the commands themselves."""

    text: str
    style: str

    def __str__(self) -> str:
        return self.text


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


def write_text(text: str) -> None:
    """Write sentences of results: broken between words in a terminal, on one line elsewhere."""
    if not sys.stdout.isatty():
        write_line(text)
        return
    for line in textwrap.wrap(visible(text), get_terminal_size().columns, break_on_hyphens=False) or [""]:
        print(line, flush=True)


def write_message(text: str) -> None:
    """Write one message line to standard error; a JSON object in a command with ``-o json``."""
    if JSON_MESSAGES.get():
        write_problem({"message": text.removeprefix("forebay: ")})
        return
    print(visible(text), file=sys.stderr, flush=True)


def write_problem(value: object) -> None:
    """Write one JSON object on one line to standard error."""
    print(visible_json(json.dumps(plain(value), ensure_ascii=False)), file=sys.stderr, flush=True)


def can_ask() -> bool:
    """Return True if a question reaches a terminal, and an answer comes from one."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask(question: str) -> bool:
    """Ask a question at the terminal; everything but ``y`` and ``yes`` is no."""
    print(f"{visible(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def write_bytes_line(value: bytes) -> None:
    """Write ``value`` unchanged with a line end; to a terminal, escape it as `write_line` does."""
    if sys.stdout.isatty():
        write_line(text_of(value))
        return
    sys.stdout.buffer.write(value + b"\n")
    sys.stdout.buffer.flush()


def write_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Write a table; columns of numbers are aligned to the right."""
    write_rich(table_of(title, columns, rows))


def write_rich(table: Table) -> None:
    """Write a finished table; a title that is wider than its table is a line of its own."""
    from rich.measure import Measurement
    from rich.text import Text

    console, title = console_for(table), table.title
    if isinstance(title, Text) and title.cell_len > Measurement.get(console, console.options, table).maximum:
        table.title = None
        console.print(title, style=table.title_style or "")
    console.print(table)


def console_for(table: Table, width: int | None = None) -> Console:
    """Return the console for a table, with the width of the terminal.

    It is wider where numbers would be cut otherwise: the terminal then breaks the lines.
    """
    from rich.console import Console

    console = Console(soft_wrap=False)
    width = width or (console.width if console.is_terminal else 200)
    least = sum((column.min_width or 0) + CELL_PADDING for column in table.columns)
    return Console(width=max(width, least))


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


def table_of(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, one_line: bool = False) -> Table:
    """Return the table that `write_table` writes.

    Numbers, sizes, durations and times are never broken over lines. Text is, where it does not fit; with ``one_line``
    it is cut with an ellipsis instead, so that each row is one line.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    shown = Text(visible(title)) if title else None
    head = any(columns)
    table = Table(
        title=shown,
        box=SIMPLE_HEAD if head else None,
        show_header=head,
        title_justify="left",
        title_style="bold",
        pad_edge=False,
        padding=(0, 1) if head else (0, 2),
    )
    for index, column in enumerate(columns):
        cells = [row[index] for row in rows if row[index] not in (None, "")]
        numeric = bool(cells) and all(isinstance(cell, int | float | Figure) for cell in cells)
        whole = bool(cells) and all(isinstance(cell, int | float | Figure | Styled | datetime) for cell in cells)
        widest = max((len(cell_text(cell)) for cell in cells), default=0)
        least = max(len(column), widest) if whole else min(TEXT_MIN, max(len(column), widest))
        justify: Literal["right", "left"] = "right" if numeric else "left"
        table.add_column(Text(visible(column)), justify=justify, overflow="fold", no_wrap=whole, min_width=least)
    for row in rows:
        # Text, not markup: tags and emoji codes in data are not interpreted.
        texts = [Text(visible(cell_text(cell)), style=cell.style if isinstance(cell, Styled) else "") for cell in row]
        for text in texts if one_line else ():
            text.no_wrap, text.overflow = True, "ellipsis"
        table.add_row(*texts)
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
            return time_text(cell)
        case bytes():
            return text_of(cell)
        case _:
            return str(cell)


def bytes_text(count: int) -> Figure:
    """Return a number of bytes with a unit: ``1.5 MiB``."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return Figure(f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}")
        size /= 1024
    return Figure(f"{size:.1f} TiB")


def seconds_text(seconds: float) -> Figure:
    """Return a duration with units: ``350 ms``, ``12.0 s``, ``3 min 20 s``, ``2 h 5 min``, ``3 d 4 h``."""
    if seconds < 1:
        return Figure(f"{seconds * 1000:.0f} ms")
    if seconds < 60:
        return Figure(f"{seconds:.1f} s")
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return Figure(f"{minutes} min {rest} s")
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return Figure(f"{hours} h {minutes} min")
    return Figure(f"{hours // 24} d {hours % 24} h")
