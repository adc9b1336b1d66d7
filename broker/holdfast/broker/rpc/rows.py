"""Rows one by one, for calls that carry plain records and for people: each is one JSON object.

The only place of the broker that looks into rows, and the only one that imports pyarrow: a broker without pages of rows
never loads it. Decoding takes time, so it is done in a read thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from holdfast.broker.core.errors import InvalidPage
from holdfast.broker.core.pages import Body, Entry
from holdfast.broker.core.ranges import Range
from holdfast.broker.core.writes import SchemaRecord
from holdfast.broker.rpc import arrow_page

VERSION_HEADER: Final = "holdfast.schema_version"
"""A row's header: the version of the sink's schema that it has, in decimal digits."""

SchemaOf: TypeAlias = Callable[[int], SchemaRecord]
"""A version of the schema of the sink that the page is in; raises ``SchemaNotFound``."""


def json_rows(entry: Entry, body: Body, wanted: Sequence[Range], schema_of: SchemaOf) -> list[tuple[int, bytes]]:
    """Offset and JSON object of the rows whose offsets are in ``wanted`` (sorted, apart), by offset.

    Raises ``SchemaNotFound``, and ``InvalidPage`` where the publisher had sent something else than
    rows, or rows that become too large.
    """
    from holdfast import arrow  # noqa: PLC0415 - heavy, and only for those who have rows

    found: list[tuple[int, bytes]] = []
    try:
        page = arrow_page.read(body.data)
        schema = schema_of(page.schema_version).arrow_schema
        batch = arrow.decode_rows(schema, page.messages, entry.count, page.dictionary_columns)
        for part in wanted:
            first, end = max(part.first, entry.base), min(part.end, entry.end)
            if first < end:
                values = arrow.json_objects(batch.slice(first - entry.base, end - first))
                found += zip(range(first, end), values, strict=True)
    except arrow.UNREADABLE as broken:
        raise InvalidPage(
            f"the page at offset {entry.base} does not hold {entry.count} rows of its schema: {broken}",
            base_offset=entry.base,
        ) from broken
    return found


def version_header(body: Body) -> tuple[str, bytes]:
    """The header that says which schema the rows of a page have."""
    return VERSION_HEADER, str(arrow_page.read(body.data).schema_version).encode()
