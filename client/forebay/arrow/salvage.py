"""Recovery of the readable rows of a page that cannot be decoded as a whole.

One string that is not UTF-8, or one time out of range, makes Arrow reject all rows of a page. Its structure is sound:
decoded with types of the same layout that accept any value (binaries for strings, integers for times), the page is
validated in full. Then rows are validated by halves, and valid rows are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from forebay.arrow.expansion import UNREADABLE, RowsUnreadable
from forebay.arrow.ipc import decode_rows, encode_batches, encode_schema, read_schema, unvalidated_rows
from forebay.arrow.text import invalid_rows

CHECKS_MAX: Final = 100_000
"""Maximum number of column parts to validate; rows beyond it count as unreadable."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Consecutive rows of a page that cannot be read."""

    first: int
    """Index of the first row in the page, from 0."""

    end: int
    """Index after the last row."""

    reason: str


@dataclass(frozen=True, slots=True)
class ReadableRows:
    """Readable rows of a page, and the ranges of the unreadable ones."""

    batch: pa.RecordBatch
    """Readable rows, in order."""

    unreadable: tuple[Unreadable, ...] = ()
    """Ranges of the other rows: sorted and disjoint."""

    unchecked: pa.RecordBatch | None = None
    """All rows if some are unreadable, with sound structure and unvalidated values."""

    def row_messages(self, place: int) -> bytes:
        """Return the messages of a page with one row, readable or not."""
        whole = self.batch if self.unchecked is None else self.unchecked
        return encode_batches([whole.take(pa.array([place], pa.int64()))])

    def reason(self, place: int) -> str:
        """Return the reason that a row cannot be read; empty if it can."""
        return next((part.reason for part in self.unreadable if part.first <= place < part.end), "")

    def between(self, first: int, end: int) -> pa.RecordBatch:
        """Return the readable rows with places in ``[first, end)`` of the page."""
        return self.batch.slice(self._before(first), self._before(end) - self._before(first))

    def _before(self, place: int) -> int:
        return place - sum(min(part.end, place) - part.first for part in self.unreadable if part.first < place)


def nothing_readable(rows: int, reason: str) -> ReadableRows:
    """Return the result for a page that cannot be decoded at all."""
    return ReadableRows(pa.record_batch([], schema=pa.schema([])), (Unreadable(0, rows, reason),) if rows else ())


def readable_rows(
    schema: bytes, messages: bytes | memoryview, rows: int, dictionary_columns: Sequence[tuple[int, int]] = ()
) -> ReadableRows:
    """Return the readable rows of a page; see ``decode_rows``.

    Raises `RowsUnreadable` if no row can be extracted from the page.
    """
    try:
        return ReadableRows(decode_rows(schema, messages, rows, dictionary_columns))
    except RowsUnreadable as broken:
        batch = _structure_of(schema, messages, rows, dictionary_columns)
        if batch is None or not rows:
            raise
        wrong = _wrong_rows(batch)
        if len(wrong) == rows:
            raise RowsUnreadable(str(broken)) from broken
        kept = [place for place in range(rows) if place not in wrong]
        return ReadableRows(batch.take(pa.array(kept, pa.int64())), tuple(_joined(sorted(wrong.items()))), batch)


def _structure_of(
    schema: bytes, messages: bytes | memoryview, rows: int, dictionary_columns: Sequence[tuple[int, int]]
) -> pa.RecordBatch | None:
    """Return the rows with their own types if their structure is sound, otherwise None."""
    try:
        own = read_schema(schema)
        plain = encode_schema(pa.schema([_plain_field(field) for field in own], metadata=own.metadata))
        decode_rows(plain, messages, rows, dictionary_columns)
        return unvalidated_rows(schema, messages, rows, dictionary_columns)
    except UNREADABLE:
        return None


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(_plain_type(field.type))


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """Return a type with the same layout that accepts any value."""
    for is_kind, plain in _PLAIN:
        if is_kind(kind):
            return plain
    if pa.types.is_decimal128(kind):
        return pa.binary(16)
    if pa.types.is_struct(kind):
        return pa.struct([_plain_field(field) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_plain_field(kind.key_field), _plain_field(kind.item_field))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_plain_field(kind.value_field), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(_plain_field(kind.value_field))
    if pa.types.is_list(kind):
        return pa.list_(_plain_field(kind.value_field))
    return kind


_PLAIN: Final = (
    (pa.types.is_string, pa.binary()),
    (pa.types.is_large_string, pa.large_binary()),
    (pa.types.is_date64, pa.int64()),
    (pa.types.is_time32, pa.int32()),
    (pa.types.is_time64, pa.int64()),
)


def _wrong_rows(batch: pa.RecordBatch) -> dict[int, str]:
    """Return the invalid rows by index, with reasons."""
    wrong = invalid_rows(batch)
    places = [place for place in range(batch.num_rows) if place not in wrong]
    rest = batch.take(pa.array(places, pa.int64()))
    left = CHECKS_MAX
    parts = [(0, len(places))] if places else []
    while parts:
        first, end = parts.pop()
        left -= max(1, batch.num_columns)
        if left < 0:
            wrong.update(dict.fromkeys(places[first:end], "too many rows of its page cannot be read"))
            continue
        try:
            rest.take(pa.array(range(first, end), pa.int64())).validate(full=True)
        except UNREADABLE as error:
            if end - first == 1:
                wrong[places[first]] = str(error)
            else:
                middle = (first + end) // 2
                parts += [(middle, end), (first, middle)]
    return wrong


def _joined(wrong: Iterable[tuple[int, str]]) -> list[Unreadable]:
    found: list[Unreadable] = []
    for place, reason in wrong:
        if found and found[-1].end == place and found[-1].reason == reason:
            found[-1] = Unreadable(found[-1].first, place + 1, reason)
        else:
            found.append(Unreadable(place, place + 1, reason))
    return found
