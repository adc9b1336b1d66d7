"""Validation of a batch before it is written: accepted batches can always be read back.

Readers validate every page in full before they use its offsets, and reject an invalid one. The same validation runs
here on the input of a writer: structure, UTF-8, the ranges of decimals and times, nested fields and map keys too.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from forebay.arrow.kinds import is_list
from forebay.arrow.text import InvalidText, first_invalid, with_valid_text

BEYOND_ITS_ELEMENTS: Final = "a list without elements begins beyond the elements of its column"


class RowInvalid(ValueError):
    """Row that readers would reject. The text has the column and the reason."""

    def __init__(self, row: int, column: str, reason: str, *, text: InvalidText | None = None) -> None:
        """Describe a row, counted from 0 in its batch; ``text`` is set if a string is not UTF-8."""
        super().__init__(f"row {row}, column {column}: {reason}")
        self.row = row
        self.column = column
        self.reason = reason
        self.text = text


def is_valid(batch: pa.RecordBatch) -> bool:
    """Return True if readers accept these rows; costs 4 to 12 ns per string."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return not any(map(begins_beyond, batch.columns))


def begins_beyond(column: pa.Array) -> bool:
    """Return True if an array of no lists in a column has a first offset beyond its elements.

    Arrow's validation ignores that offset, and functions of Arrow that follow it end the process.
    """
    return any(_begins_beyond(lists) for lists in _lists(column))


def _begins_beyond(lists: pa.Array) -> bool:
    offsets = lists.buffers()[1]
    form = "=q" if pa.types.is_large_list(lists.type) else "=i"
    if len(lists) or offsets is None or offsets.size < struct.calcsize(form) * (lists.offset + 1):
        return False
    (first,) = struct.unpack_from(form, offsets, struct.calcsize(form) * lists.offset)
    return not 0 <= first <= len(lists.values)


def _lists(column: pa.Array) -> Iterator[pa.Array]:
    """Yield the arrays of lists of a column, nested ones included."""
    arrays = [column]
    while arrays:
        array = arrays.pop()
        kind = array.type
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            yield array
        if pa.types.is_struct(kind):
            arrays += [array.field(place) for place in range(kind.num_fields)]
        elif pa.types.is_map(kind):
            arrays += [array.keys, array.items]
        elif is_list(kind):
            arrays.append(array.values)
        elif pa.types.is_dictionary(kind):
            arrays.append(array.dictionary)


def checked(batch: pa.RecordBatch, *, replace_text: bool = False) -> pa.RecordBatch:
    """Return a batch that every reader accepts. Raises `RowInvalid` for the first invalid row.

    With ``replace_text``, bytes that are not UTF-8 are replaced by U+FFFD.
    """
    if is_valid(batch):
        return batch
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if begins_beyond(column):
            raise RowInvalid(0, name, BEYOND_ITS_ELEMENTS)
    wrong = None if replace_text else first_invalid(batch)
    if wrong is not None:
        reason = f"the string is not UTF-8, byte 0x{wrong.byte:02x} at position {wrong.at}"
        raise RowInvalid(wrong.row, wrong.column, reason, text=wrong)
    # Otherwise the invalid bytes are outside of the slice or below a null, and the copy does not contain them.
    copied = with_valid_text(batch)
    if is_valid(copied):
        return copied
    raise _first_wrong(copied)


def _first_wrong(batch: pa.RecordBatch) -> RowInvalid:
    """Return the first row that is invalid for another reason than its text."""
    found: list[RowInvalid] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        low, high = 0, len(column)  # [0, low) is valid, [0, high) is not
        reason = _reason(column)
        if reason is None:
            continue
        while high - low > 1:
            middle = (low + high) // 2
            wrong = _reason(column.take(pa.array(range(low, middle), pa.int64())))
            low, high = (middle, high) if wrong is None else (low, middle)
            reason = wrong or reason
        found.append(RowInvalid(low, name, reason))
    return min(found, key=lambda each: each.row)


def _reason(column: pa.Array) -> str | None:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        return str(error)
    return None
