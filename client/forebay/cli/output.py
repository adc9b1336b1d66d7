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
from enum import Enum, StrEnum
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
TEXT_LEGIBLE: Final = 20
"""Characters of a column of text below which optional columns are hidden instead."""
CELL_PADDING: Final = 3
"""Characters between two columns."""
PIPE_WIDTH: Final = 200
"""Width of output that is not a terminal; lists are as wide as they need."""


class Figure(str):
    """Text of a number with its unit: aligned to the right in tables, and never broken over lines."""

    __slots__ = ()


class Whole(str):
    """Text that is never cut nor broken over lines, such as an ID that is an argument of other commands."""

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
    """Write a table of facts or sentences; text that does not fit continues on further lines."""
    write_rich(table_of(title, columns, rows))


def write_list(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, optional: Sequence[str] = ()
) -> None:
    """Write a table of one line per row, as `list_of` returns it."""
    write_rich(list_of(title, columns, rows, optional=optional))


def write_rich(table: Table) -> None:
    """Write a finished table; a title or caption that is wider than its table is a line of its own."""
    from rich.measure import Measurement
    from rich.text import Text

    console, title, caption = console_for(table), table.title, table.caption
    widest = Measurement.get(console, console.options, table).maximum
    if isinstance(title, Text) and title.cell_len > widest:
        table.title = None
        console.print(title, style=table.title_style or "")
    if isinstance(caption, Text) and caption.cell_len > widest:
        table.caption = None
    console.print(table)
    if isinstance(caption, Text) and table.caption is None:
        console.print(caption, style=table.caption_style or "", end="\n\n")


def console_for(table: Table, width: int | None = None) -> Console:
    """Return the console for a table, by default with the width of the terminal.

    It is wider where numbers would be cut otherwise: the terminal then breaks the lines.
    """
    from rich.console import Console

    least = sum((column.min_width or 0) + CELL_PADDING for column in table.columns)
    return Console(width=max(width or terminal_width() or PIPE_WIDTH, least), soft_wrap=False)


def terminal_width() -> int | None:
    """Return the width of the terminal that shows the results; None if none does."""
    from rich.console import Console

    console = Console()
    return console.width if console.is_terminal else None


def write_result(value: object, text: str, output: Output) -> None:
    """Write the result of a command: ``value`` as JSON, or one line of text."""
    if output is Output.JSON:
        write_json(value)
    else:
        write_line(text)


def write_values(
    values: Sequence[V],
    output: Output,
    title: str,
    columns: Mapping[str, Column[V]],
    *,
    optional: Sequence[str] = (),
) -> None:
    """Write values as one JSON document, or as a list of one line per value with `optional` columns."""
    if output is Output.JSON:
        write_json(values)
    else:
        write_list(title, tuple(columns), rows_of(values, columns), optional=optional)


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
        caption_justify="left",
        caption_style="dim",
        pad_edge=False,
        padding=(0, 1) if head else (0, 2),
    )
    for index, column in enumerate(columns):
        layout = _layout(column, [row[index] for row in rows])
        justify: Literal["right", "left"] = "right" if layout.is_numeric else "left"
        table.add_column(
            Text(visible(column)),
            justify=justify,
            overflow="fold",
            no_wrap=layout.is_whole,
            min_width=layout.least,
        )
    for row in rows:
        # Text, not markup: tags and emoji codes in data are not interpreted.
        texts = [Text(visible(cell_text(cell)), style=cell.style if isinstance(cell, Styled) else "") for cell in row]
        for text in texts if one_line else ():
            text.no_wrap, text.overflow = True, "ellipsis"
        table.add_row(*texts)
    return table


def list_of(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    optional: Sequence[str] = (),
    legible: int = TEXT_LEGIBLE,
    width: int | None = None,
) -> Table:
    """Return a table of one line per row, for ``width`` characters; by default those of the terminal.

    Columns of ``optional`` are hidden where the others would have no room: those without any value first, then in the
    given order, and a caption names them. A column of text has room with ``legible`` characters.
    Text that still does not fit is cut with an ellipsis; numbers never are.
    """
    from rich.text import Text

    width = width or terminal_width()
    hidden = _hidden(columns, rows, optional, legible, width)
    kept = [index for index, column in enumerate(columns) if column not in hidden]
    shown_rows = [tuple(row[index] for index in kept) for row in rows]
    table = table_of(title, [columns[index] for index in kept], shown_rows, one_line=True)
    if width is None:  # programs read it, and nothing is cut
        for column, index in zip(table.columns, kept, strict=True):
            column.min_width = _layout(columns[index], [row[index] for row in rows]).full
    if named := [column for column in hidden if not _is_empty([row[columns.index(column)] for row in rows])]:
        text = f"hidden for lack of width: {', '.join(named)}; a wider terminal or -o json shows them"
        table.caption = Text(visible(text))
    return table


@dataclasses.dataclass(frozen=True, slots=True)
class _Layout:
    """Widths of a column in cells of a terminal: a wide character takes two."""

    is_numeric: bool
    is_whole: bool
    """True if no cell is cut or broken."""

    full: int
    """Width of the longest cell and of the head."""

    least: int
    """Width in the narrowest terminal."""


def _layout(column: str, every: Sequence[object]) -> _Layout:
    from rich.cells import cell_len

    cells = [cell for cell in every if cell not in (None, "")]
    numeric = bool(cells) and all(isinstance(cell, int | float | Figure) for cell in cells)
    kinds = int | float | Figure | Whole | Styled | datetime | Enum
    whole = bool(cells) and all(isinstance(cell, kinds) for cell in cells)
    widest = max((cell_len(visible(cell_text(cell))) for cell in cells), default=0)
    full = max(cell_len(column), widest)
    word = max((cell_len(each) for each in column.split()), default=0)
    return _Layout(numeric, whole, full, full if whole else max(word, min(TEXT_MIN, full)))


def _hidden(
    columns: Sequence[str], rows: Sequence[Sequence[object]], optional: Sequence[str], legible: int, width: int | None
) -> list[str]:
    """Return the columns that do not fit into ``width``; none if it is None."""
    if width is None:
        return []
    every = {column: [row[index] for row in rows] for index, column in enumerate(columns)}
    wanted = {
        column: layout.full if layout.is_whole else min(layout.full, max(legible, layout.least))
        for column, cells in every.items()
        for layout in (_layout(column, cells),)
    }
    hidden: list[str] = []
    present = [column for column in optional if column in every]
    for column in sorted(present, key=lambda one: not _is_empty(every[one])):
        if sum(each + CELL_PADDING for each in wanted.values()) - 1 <= width:
            break
        del wanted[column]
        hidden.append(column)
    return hidden


def _is_empty(cells: Sequence[object]) -> bool:
    return all(cell in (None, "") for cell in cells)


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
