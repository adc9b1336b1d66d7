"""Rows of a page as columns of records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from forebay.client.replay.rows import PageRows
from forebay.page.columns import Columns
from forebay.page.header_pairs import Headers


class RowColumns:
    """Columns of consecutive rows, with the attributes of `Columns`.

    The values are made when they are asked for.
    """

    __slots__ = ("_end", "_first", "_rows", "unreadable")

    keys: Final = None
    event_times_us: Final = None

    def __init__(self, rows: PageRows, first: int, end: int) -> None:
        """``first`` to below ``end`` are positions in the page."""
        self._rows = rows
        self._first, self._end = first, end
        self.unreadable: Mapping[int, str] = {
            place - first: why for place, why in rows.unreadable.items() if first <= place < end
        }
        """Index of each row that cannot be decoded, with the reason; its value is empty."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._end - self._first

    @property
    def values(self) -> list[bytes]:
        """Each row as a JSON object. Raises ``InvalidPage``."""
        values = self._rows.values
        return values if len(self) == len(values) else values[self._first : self._end]

    @property
    def headers(self) -> list[Headers]:
        """Headers of each row: the version of its schema."""
        return [(self._rows.header,)] * len(self)

    def bytes_at_most(self) -> int:
        """Return an upper bound of the bytes of all values, that of the page, which makes none."""
        return self._rows.bytes_at_most

    def made(self) -> Columns:
        """Return these rows with their values, which hold nothing else of the page. Raises ``InvalidPage``."""
        return Columns(self.values, None, None, self.headers, self.unreadable)

    def part(self, first: int, end: int) -> RowColumns:
        """Return the rows with the indices from ``first`` to below ``end``."""
        return RowColumns(self._rows, self._first + first, self._first + end)
