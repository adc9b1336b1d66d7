"""Run: consecutive delivered records of a page as columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import repeat
from typing import Final

from forebay.client.consume.in_flight import InFlight
from forebay.client.replay.columns import record_fields
from forebay.client.replay.row_columns import RowColumns
from forebay.client.values.records import DeliveredRecord, Encoding, StoredPage
from forebay.page.columns import Columns

_DELIVERED: Final = partial(tuple.__new__, DeliveredRecord)
"""Builds a record of its fields, in C."""


class DeliveredRun:
    """Records of a delivery as columns; a record is made when it is asked for."""

    __slots__ = ("_columns", "_in_flight", "page")

    def __init__(self, in_flight: InFlight, page: StoredPage, columns: Columns | RowColumns) -> None:
        """``columns`` are those of the requested records of the page."""
        self._in_flight = in_flight
        self.page = page
        """Stored page, with the range of these records as the requested one."""
        self._columns = columns

    @property
    def first_offset(self) -> int:
        """Offset of the first record."""
        return self.page.first_offset

    @property
    def values(self) -> list[bytes]:
        """Payload of each record; empty if it cannot be decoded."""
        return self._columns.values

    @property
    def unreadable(self) -> Mapping[int, str]:
        """Index of each record that cannot be decoded, with the reason."""
        return self._columns.unreadable

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self._columns)

    def __iter__(self) -> Iterator[DeliveredRecord]:
        """Yield the records in order, including those that cannot be decoded."""
        of, columns = self._in_flight, self._columns
        offsets = range(self.first_offset, self.first_offset + len(columns))
        unreadable = columns.unreadable
        fields = (
            repeat(of.partition),
            *record_fields(self.page, columns),
            [of.attempts.get(offset, 0) for offset in offsets] if of.attempts else repeat(0),
            *map(repeat, (of.resend, of.owner_epoch, of.revision, of.incarnation)),
            [unreadable.get(index, "") for index in range(len(columns))] if unreadable else repeat(""),
        )
        return map(_DELIVERED, zip(*fields, strict=False))

    def __repr__(self) -> str:
        """Return partition and offsets, never contents."""
        page = self.page
        return f"<DeliveredRun partition={page.partition} offsets={page.first_offset}-{page.last_offset}>"

    def sizes(self) -> list[int]:
        """Return the bytes of key and value of each record."""
        sizes = list(map(len, self.values))
        keys = self._columns.keys
        return sizes if keys is None else [size + len(key or b"") for size, key in zip(sizes, keys, strict=True)]

    def bytes_at_most(self) -> int:
        """Return an upper bound of the sum of ``sizes``, mostly without reading the records."""
        columns = self._columns
        if isinstance(columns, RowColumns):
            return columns.bytes_at_most()
        # The JSON of rows is longer than these are.
        return len(self.page.body) if self.page.encoding is Encoding.RECORDS else sum(self.sizes())

    def part(self, first: int, end: int) -> DeliveredRun:
        """Return the records with the indices from ``first`` to below ``end``."""
        offset = self.first_offset
        page = replace(self.page, first_offset=offset + first, last_offset=offset + end - 1)
        return DeliveredRun(self._in_flight, page, self._columns.part(first, end))
