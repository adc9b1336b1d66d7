"""Bodies with rows: version of the schema, number of rows, and their messages.

The messages are not decoded here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

from google.protobuf.message import DecodeError

from forebay.page.format import Bytes, MalformedPage
from forebay.page.varint import encoded, length_at, number_at
from forebay.v1 import record_pb2

DictionaryColumns: TypeAlias = tuple[tuple[int, int], ...]
"""Pairs of column index and index width, by ascending column index.

The first number is an index in the schema's columns; the second is the bytes (1 or 2) of a row's dictionary index.
"""

DICTIONARY_COLUMNS_MAX: Final = 1_024
_INDEX_BYTES: Final = (1, 2)
_VERSION: Final = 0x08
_ROWS: Final = 0x10
_MESSAGES: Final = 0x1A
_NUMBERS_END: Final = 1 << 32


@dataclass(frozen=True, slots=True)
class RowsBody:
    """A body with ``ARROW``."""

    schema_version: int
    count: int
    messages: Bytes
    """Messages of Arrow's IPC stream format that follow the schema message.

    A view of the body where it has the usual form.
    """
    dictionary_columns: DictionaryColumns = ()
    """Columns that the messages encode by a dictionary."""


def encode_rows(schema_version: int, count: int, messages: bytes, dictionary_columns: DictionaryColumns = ()) -> bytes:
    """Return the body of some rows."""
    head = bytes([_VERSION]) + encoded(schema_version) + bytes([_ROWS]) + encoded(count)
    for column, index_bytes in dictionary_columns:
        content = (b"\x08" + encoded(column) if column else b"") + b"\x10" + encoded(index_bytes)
        head += b"\x22" + encoded(len(content)) + content
    head += (b"\x2a" if dictionary_columns else bytes([_MESSAGES])) + encoded(len(messages))
    return head + messages


def rows_of(body: Bytes, *, check_size: Callable[[bytes], None] = lambda _: None) -> RowsBody:
    """Return the parts of a body. Raises ``MalformedPage`` if it is no ``ArrowPage`` of this version.

    ``check_size`` is called before protobuf decodes a body that is not in the usual form.
    """
    found = usual_rows(body)
    if found is None:
        check_size(bytes(body))
        found = general_rows(body)
    if not found.schema_version:
        raise MalformedPage("it names no version of a schema")
    if not found.messages:
        raise MalformedPage("it holds no messages that this version knows")
    return found


def count_rows(body: Bytes) -> int:
    """Return the rows that a body states. Raises ``MalformedPage``."""
    return rows_of(body).count


def usual_rows(body: Bytes) -> RowsBody | None:
    """Return the parts of a body in the usual form without dictionaries; None for any other."""
    view = memoryview(body)
    found: list[int] = []
    at = 0
    for tag, read in ((_VERSION, number_at), (_ROWS, number_at), (_MESSAGES, length_at)):
        number = read(view, at + 1) if at < len(view) and view[at] == tag else None
        if number is None or number[0] >= _NUMBERS_END:
            return None
        found.append(number[0])
        at = number[1]
    version, count, length = found
    return RowsBody(version, count, view[at:]) if at + length == len(view) else None


def general_rows(body: Bytes) -> RowsBody:
    """Return the parts of a body in any form, read by protobuf. Raises ``MalformedPage``."""
    try:
        page = record_pb2.ArrowPage.FromString(bytes(body))
    except DecodeError as error:
        raise MalformedPage("it cannot be parsed") from error
    if not page.dictionary_messages and not page.dictionary_columns:
        return RowsBody(page.schema_version, page.rows, page.messages)
    if page.messages:
        raise MalformedPage("it holds messages with and without dictionaries")
    return RowsBody(page.schema_version, page.rows, page.dictionary_messages, _columns(page))


def _columns(page: record_pb2.ArrowPage) -> DictionaryColumns:
    count = len(page.dictionary_columns)
    if not 1 <= count <= DICTIONARY_COLUMNS_MAX:
        raise MalformedPage(f"{count} columns have a dictionary: 1 to {DICTIONARY_COLUMNS_MAX} may")
    found = tuple((each.column, each.index_bytes) for each in page.dictionary_columns)
    if any(before >= after for (before, _), (after, _) in pairwise(found)):
        raise MalformedPage("its columns with a dictionary are not in order")
    if any(index_bytes not in _INDEX_BYTES for _, index_bytes in found):
        raise MalformedPage("it has a dictionary with indices that this version does not know")
    return found
