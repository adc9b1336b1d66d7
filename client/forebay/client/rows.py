"""Pages of rows with a schema: their framing, and rows as records.

A row is a record without a key; its value is one JSON object, and the header ``forebay.schema_version`` says which
schema it has. Turning rows into that needs pyarrow, which is imported when the first such page is read. Who wants the
rows as Arrow batches uses ``forebay.client.arrow``.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Final, TypeAlias

from google.protobuf.message import DecodeError

from forebay.client.errors import ArrowNotInstalled, InvalidPage
from forebay.client.pages import EncodedPage, varint
from forebay.client.values import Encoding, Header, StoredPage
from forebay.v1 import record_pb2

VERSION_HEADER: Final = "forebay.schema_version"
_USUAL: Final = b"\x08\x10\x1a"
_SHIFT_MAX: Final = 28
DictionaryColumns: TypeAlias = tuple[tuple[int, int], ...]
"""Place in the schema's columns, and bytes of a row's number (1 or 2), by rising place."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The body of a page with ``Encoding.ARROW``."""

    schema_version: int
    count: int
    messages: bytes | memoryview
    """Messages of Arrow's IPC stream format that follow the schema message. A view of the body of a usual page."""
    dictionary_columns: DictionaryColumns = ()
    """Those that the messages code by a dictionary."""


def encode_rows(
    schema_version: int, count: int, messages: bytes, dictionary_columns: DictionaryColumns = ()
) -> EncodedPage:
    """Return a page of rows.

    ArrowPage          08 version   10 rows   1a <length> messages
                       08 version   10 rows   22 <length> DictionaryColumn ...   2a <length> messages
    DictionaryColumn   08 column    10 index bytes
    """
    head = b"\x08" + varint(schema_version) + b"\x10" + varint(count)
    for column, index_bytes in dictionary_columns:
        coded = (b"\x08" + varint(column) if column else b"") + b"\x10" + varint(index_bytes)
        head += b"\x22" + varint(len(coded)) + coded
    head += (b"\x2a" if dictionary_columns else b"\x1a") + varint(len(messages))
    return EncodedPage(head + messages, count, Encoding.ARROW)


def read_rows(page: StoredPage) -> Rows:
    """Return what a page of rows holds; raises ``InvalidPage`` for a body that is none."""
    rows = _usual_rows(memoryview(page.body)) or _any_rows(page)
    if page.encoding is not Encoding.ARROW or rows.count != page.record_count:
        raise InvalidPage(f"the page at offset {page.base_offset} does not hold the rows that it states")
    return rows


def _usual_rows(body: memoryview) -> Rows | None:
    """Return what a body without dictionaries holds and copy nothing; None for any other."""
    numbers = []
    at = 0
    for tag in _USUAL:
        if at >= len(body) or body[at] != tag:
            return None
        number = shift = 0
        more = True
        while more:
            at += 1
            if at >= len(body) or shift > _SHIFT_MAX:
                return None
            number |= (body[at] & 0x7F) << shift
            shift += 7
            more = body[at] > 0x7F
        if number >> 32:
            return None
        numbers.append(number)
        at += 1
    version, count, length = numbers
    return Rows(version, count, body[at:]) if length and at + length == len(body) else None


def _any_rows(page: StoredPage) -> Rows:
    try:
        found = record_pb2.ArrowPage.FromString(page.body)
    except DecodeError as failure:
        raise InvalidPage(f"the page at offset {page.base_offset} is not an ArrowPage") from failure
    columns = tuple((each.column, each.index_bytes) for each in found.dictionary_columns)
    messages = found.dictionary_messages if columns else found.messages
    if not messages or (found.messages and found.dictionary_messages):
        raise InvalidPage(f"the page at offset {page.base_offset} holds no messages that this version knows")
    return Rows(found.schema_version, found.rows, messages, columns)


def json_values(page: StoredPage) -> tuple[list[bytes], Header, dict[int, str]]:
    """Return all rows of a page as JSON objects, the header that they have, and which are unreadable, each with why.

    The value of an unreadable row is empty. Raises ``ArrowNotInstalled``, ``InvalidPage`` where no row can be read, and
    what asking for the schema raises.
    """
    rows = read_rows(page)
    if page.schema_of is None:
        raise InvalidPage(f"nobody knows the schema of the page at offset {page.base_offset}")
    arrow = _arrow()
    schema = page.schema_of(rows.schema_version).arrow_schema
    try:
        found = arrow.readable_rows(schema, rows.messages, rows.count, rows.dictionary_columns)
        values: list[bytes] = arrow.json_objects(found.batch)
    except arrow.UNREADABLE as broken:
        raise InvalidPage(
            f"the page at offset {page.base_offset} does not hold rows of version {rows.schema_version}: {broken}"
        ) from broken
    unreadable = {place: part.reason for part in found.unreadable for place in range(part.first, part.end)}
    if unreadable:
        readable = iter(values)
        values = [b"" if place in unreadable else next(readable) for place in range(rows.count)]
    return values, (VERSION_HEADER, str(rows.schema_version).encode()), unreadable


def _arrow() -> ModuleType:
    try:
        from forebay import arrow  # noqa: PLC0415 - an optional extra
    except ImportError as missing:
        if (missing.name or "").partition(".")[0] != "pyarrow":
            raise
        raise ArrowNotInstalled(
            "this sink holds rows with a schema, and reading them needs pyarrow: pip install 'forebay[arrow]'"
        ) from missing
    return arrow
