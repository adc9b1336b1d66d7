"""Pages of rows with a schema: framing, and conversion of rows to records.

A row becomes a record without a key. Its value is a JSON object, and the header ``forebay.schema_version`` has the
version of its schema. The conversion needs pyarrow, which is imported when the first such page is read. For rows as
Arrow batches, use ``forebay.client.arrow``.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

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


class PageRows:
    """Decoded rows of a page, whose JSON is made when it is asked for the first time."""

    def __init__(self, page: StoredPage) -> None:
        """Decode a page.

        Raises ``ArrowNotInstalled``, ``InvalidPage`` if no row can be decoded, or they have no JSON or too much of it,
        and the errors of loading the schema.
        """
        body = read_rows(page)
        if page.schema_of is None:
            raise InvalidPage(f"the page at offset {page.base_offset} has no source of schemas: get it from a replay")
        self._arrow: Final = _arrow()
        self._base_offset: Final = page.base_offset
        self._version: Final = body.schema_version
        self.header: Final[Header] = (VERSION_HEADER, str(body.schema_version).encode())
        """Header of each row, which has the version of its schema."""
        schema = page.schema_of(body.schema_version).arrow_schema
        self._count: Final = body.count
        self._making: Final = threading.Lock()
        """Protects rows and values."""
        try:
            found = self._arrow.readable_rows(schema, body.messages, body.count, body.dictionary_columns)
            self.bytes_at_most: Final[int] = self._arrow.checked_bytes(found.batch)
            """Upper bound of the bytes of all values."""
        except self._arrow.UNREADABLE as broken:
            raise self._invalid(broken) from broken
        self.unreadable: Final[Mapping[int, str]] = {
            place: part.reason for part in found.unreadable for place in range(part.first, part.end)
        }
        """Position of each row that cannot be decoded, with the reason."""
        self._rows: Any = found.batch
        """Readable rows, until their values are made."""
        self._values: list[bytes] = []
        if not all(map(self._arrow.always_has_json, found.batch.schema.types)):
            self._make()

    def __len__(self) -> int:
        """Return the number of rows, readable or not."""
        return self._count

    @property
    def values(self) -> list[bytes]:
        """Each row as a JSON object; empty for one that cannot be decoded. Raises ``InvalidPage``."""
        with self._making:
            if self._rows is not None:
                self._make()
        return self._values

    def _make(self) -> None:
        try:
            made: list[bytes] = self._arrow.json_objects(self._rows)
        except self._arrow.UNREADABLE as broken:
            raise self._invalid(broken) from broken
        if self.unreadable:
            readable = iter(made)
            made = [b"" if place in self.unreadable else next(readable) for place in range(self._count)]
        self._values, self._rows = made, None

    def _invalid(self, broken: Exception) -> InvalidPage:
        return InvalidPage(
            f"the page at offset {self._base_offset} does not decode with schema version {self._version}: {broken}"
        )


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
