"""Batches of values, and rows read back from COPY's text format."""

from __future__ import annotations

import re

from hypothesis import strategies as st

from forebay.deliver import Batch
from forebay.deliver.targets.postgresql.rows import Rows
from tests.support.targets.memory_source import MemoryRecord

TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from("\\\t\n\rN."))


def batch(*values: bytes, first: int = 0) -> Batch:
    """Return a batch of partition 3."""
    return Batch("orders", "i", 3, tuple(MemoryRecord(first + n, value) for n, value in enumerate(values)))


def rows_of(rows: Rows) -> list[tuple[str | None, ...]]:
    """Read lines as the manual of PostgreSQL describes the text format of COPY."""
    *lines, rest = rows.lines.decode().split("\n")
    assert rest == ""
    return [tuple(_cell(cell) for cell in line.split("\t")) for line in lines]


def _cell(text: str) -> str | None:
    characters = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
    if text == "\\N":
        return None
    return re.sub(r"\\(.)", lambda found: characters.get(found[1], found[1]), text)
