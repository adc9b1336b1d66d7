"""The framing of a page of rows: which schema they have, how many they are, and where their messages stand.

    ArrowPage   08 version   10 rows   1a <length> messages, to the end of the body

A page with dictionaries has field 5 in the place of 3, and field 4 names its columns. The messages are not looked at,
and those of a usual page not copied: that rows are what they say is found out by who reads them. Whatever another
writer may legally do differently goes through protobuf.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from google.protobuf.message import DecodeError

from forebay.broker.core.pages import Bytes
from forebay.v1 import record_pb2

_VERSION: Final = 0x08
_ROWS: Final = 0x10
_MESSAGES: Final = 0x1A
_SHIFT_MAX: Final = 28
"""Of a number of 32 bits."""
DICTIONARY_COLUMNS_MAX: Final = 1_024
_INDEX_BYTES: Final = (1, 2)


@dataclass(frozen=True, slots=True)
class ArrowPage:
    """The body of a page with ``Encoding.ARROW``."""

    schema_version: int
    rows: int
    messages: Bytes
    """A view of the body where that has the usual form."""
    dictionary_columns: tuple[tuple[int, int], ...] = ()
    """Place in the schema, and bytes per row, of the columns that are coded by a dictionary."""


def read(body: Bytes) -> ArrowPage:
    """Take a body apart; raises ValueError for what is none."""
    page = _usual(memoryview(body)) or _any(body)
    if not page.schema_version:
        raise ValueError("it names no version of a schema")
    if not page.messages:
        raise ValueError("it holds no messages that this version knows")
    return page


def _usual(body: memoryview) -> ArrowPage | None:
    found: list[int] = []
    at = 0
    for tag in (_VERSION, _ROWS, _MESSAGES):
        if at >= len(body) or body[at] != tag:
            return None
        number = _varint(body, at + 1)
        if number is None:
            return None
        found.append(number[0])
        at = number[1]
    version, rows, length = found
    return ArrowPage(version, rows, body[at:]) if at + length == len(body) else None


def _varint(body: memoryview, at: int) -> tuple[int, int] | None:
    """A number of 32 bits and where it ends."""
    number = shift = 0
    while at < len(body) and shift <= _SHIFT_MAX:
        byte = body[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number, at) if number < 1 << 32 else None
        shift += 7
    return None


def _any(body: Bytes) -> ArrowPage:
    try:
        page = record_pb2.ArrowPage.FromString(bytes(body))
    except DecodeError as error:
        raise ValueError("it cannot be parsed") from error
    if not page.dictionary_messages and not page.dictionary_columns:
        return ArrowPage(page.schema_version, page.rows, page.messages)
    if page.messages:
        raise ValueError("it holds messages with and without dictionaries")
    return ArrowPage(page.schema_version, page.rows, page.dictionary_messages, _columns(page))


def _columns(page: record_pb2.ArrowPage) -> tuple[tuple[int, int], ...]:
    if not 1 <= len(page.dictionary_columns) <= DICTIONARY_COLUMNS_MAX:
        raise ValueError(f"{len(page.dictionary_columns)} columns have a dictionary: 1 to {DICTIONARY_COLUMNS_MAX} may")
    found = tuple((each.column, each.index_bytes) for each in page.dictionary_columns)
    if any(before >= after for (before, _), (after, _) in pairwise(found)):
        raise ValueError("its columns with a dictionary are not in order")
    if any(index_bytes not in _INDEX_BYTES for _, index_bytes in found):
        raise ValueError("it has a dictionary with indices that this version does not know")
    return found
