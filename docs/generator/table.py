"""Tables in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a cell may hold several lines."""
    lines = [_row(head), _row(["---"] * len(head)), *(_row(row) for row in rows)]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(one_line(cell).replace("|", r"\|") for cell in cells) + " |"


def one_line(text: str) -> str:
    """Return ``text`` on one line, with the code marks of Markdown in place of those of docstrings."""
    return re.sub(r"\s+", " ", text.replace("``", "`")).strip()


def number(value: object) -> str:
    """Return a default as a reader writes it: 67,108,864, true, `REJECT`; empty text is "none"."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{int(value):,}" if value == int(value) else f"{value:g}"
    return f"`{value}`" if str(value) else "none"
