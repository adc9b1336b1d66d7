"""Pages of rows with a schema: framing, and conversion of rows to records.

A row becomes a record without a key. Its value is a JSON object, and the header ``forebay.schema_version`` has the
version of its schema. The conversion needs pyarrow, which is imported when the first such page is read. For rows as
Arrow batches, use ``forebay.client.arrow``.
"""

from __future__ import annotations

from types import ModuleType
from typing import Final

from forebay.client.errors import ArrowNotInstalled, InvalidPage
from forebay.client.publish.pages import EncodedPage
from forebay.client.values.records import Encoding, Header, StoredPage
from forebay.packaging import install_command
from forebay.page import rows
from forebay.page.format import MalformedPage
from forebay.page.rows import DictionaryColumns, RowsBody

VERSION_HEADER: Final = "forebay.schema_version"


def encode_rows(
    schema_version: int, count: int, messages: bytes, dictionary_columns: DictionaryColumns = ()
) -> EncodedPage:
    """Return a page of rows; ``messages`` are the Arrow IPC stream messages after the schema message."""
    return EncodedPage(rows.encode_rows(schema_version, count, messages, dictionary_columns), count, Encoding.ARROW)


def read_rows(page: StoredPage) -> RowsBody:
    """Return the contents of a page of rows. Raises ``InvalidPage`` for a body that is not one."""
    try:
        found = rows.rows_of(page.body)
    except MalformedPage as error:
        raise InvalidPage(f"the page at offset {page.base_offset} is not an ArrowPage: {error}") from error
    if page.encoding is not Encoding.ARROW or found.count != page.record_count:
        raise InvalidPage(f"the page at offset {page.base_offset} does not have the number of rows that it states")
    return found


def json_values(page: StoredPage) -> tuple[list[bytes], Header, dict[int, str]]:
    """Return a page's rows as JSON objects, their header, and the reasons by unreadable position.

    The value of an unreadable row is empty. Raises ``ArrowNotInstalled``, ``InvalidPage`` if no row can be decoded, and
    the errors of loading the schema.
    """
    body = read_rows(page)
    if page.schema_of is None:
        raise InvalidPage(f"the page at offset {page.base_offset} has no source of schemas: get it from a replay")
    arrow = _arrow()
    schema = page.schema_of(body.schema_version).arrow_schema
    try:
        found = arrow.readable_rows(schema, body.messages, body.count, body.dictionary_columns)
        values: list[bytes] = arrow.json_objects(found.batch)
    except arrow.UNREADABLE as broken:
        raise InvalidPage(
            f"the page at offset {page.base_offset} does not decode with schema version {body.schema_version}: {broken}"
        ) from broken
    unreadable = {place: part.reason for part in found.unreadable for place in range(part.first, part.end)}
    if unreadable:
        readable = iter(values)
        values = [b"" if place in unreadable else next(readable) for place in range(body.count)]
    return values, (VERSION_HEADER, str(body.schema_version).encode()), unreadable


def _arrow() -> ModuleType:
    try:
        from forebay import arrow  # noqa: PLC0415 - an optional extra
    except ImportError as missing:
        if (missing.name or "").partition(".")[0] != "pyarrow":
            raise
        raise ArrowNotInstalled(
            f"the sink holds rows with a schema, which need pyarrow to be read: {install_command('arrow')}"
        ) from missing
    return arrow
