"""Rows with a schema in the text format of PostgreSQL's COPY, converted by column.

A cell has the same text as one of the row's JSON object.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from forebay.client.values.records import Encoding, StoredPage
from forebay.deliver.batches.batch import Batch
from forebay.deliver.targets.postgresql.binary_fields import is_binary
from forebay.deliver.targets.postgresql.json_rows import json_rows
from forebay.deliver.targets.postgresql.rows import NULL, RowInvalid, Rows
from forebay.deliver.targets.postgresql.settings import UnknownFields
from forebay.deliver.targets.postgresql.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

SHARE_MIN: Final = 4
"""Most parts of a page that are converted by column: all of it is decoded for each."""
_ESCAPES: Final = ("\\", r"\\"), ("\t", r"\t"), ("\n", r"\n"), ("\r", r"\r")
"""Characters and their escapes in a cell. The backslash is the first one: the others get one."""


def field_rows(batch: Batch, table: Table, unknown: UnknownFields) -> Iterator[Rows]:
    """Yield the rows of a batch: those with a schema by page, the others as `json_rows` does.

    Raises as that does.
    """
    begin = batch.first_offset
    for page in batch.pages:
        rows = schema_rows(page, table, unknown)
        if rows is not None:
            yield from _json_rows(batch, begin, page.first_offset, table, unknown)
            yield rows
            begin = page.last_offset + 1
    yield from _json_rows(batch, begin, batch.last_offset + 1, table, unknown)


def _json_rows(batch: Batch, begin: int, end: int, table: Table, unknown: UnknownFields) -> Iterator[Rows]:
    rest = batch.from_offset(begin)
    part = rest.below(end) if rest is not None else None
    return json_rows(part, table, unknown) if part is not None else iter(())


def schema_rows(page: StoredPage, table: Table, unknown: UnknownFields) -> Rows | None:
    """Return the requested rows of a page, None if they are converted one by one, or have no schema.

    Raises as `json_rows` does.
    """
    if page.encoding is not Encoding.ARROW or SHARE_MIN * len(page) < page.record_count:
        return None
    from forebay.client import arrow  # noqa: PLC0415 - an optional extra, which has read the rows

    rows, unreadable = arrow.readable_rows(page)
    names = rows.schema.names
    if unreadable or len(set(names)) < len(names):
        return None
    columns = table.columns_of(names, unknown)
    if any(_is_nested(rows.schema.field(name).type) and not table.takes_json(name) for name in columns):
        return None  # their text has the spaces of JSON
    found = [_decoded(rows.column(name)) for name in columns]
    for name, values in zip(columns, found, strict=True):
        if not table.takes_null(name) and values.null_count:
            raise RowInvalid(f"the field {name[:60]!r} of the key is null")
    return Rows(columns, _lines([_cells(values, table, name) for name, values in zip(columns, found, strict=True)]))


def _decoded(values: pa.Array) -> pa.Array:
    import pyarrow as pa  # noqa: PLC0415 - an optional extra

    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def _lines(cells: Sequence[pa.Array]) -> bytes:
    import pyarrow.compute as pc  # noqa: PLC0415 - an optional extra

    from forebay.arrow.json_rows import text_bytes  # noqa: PLC0415 - an optional extra

    *others, last = cells
    return text_bytes(pc.binary_join_element_wise(*others, pc.binary_join_element_wise(last, "", "\n"), "\t"))


def _cells(values: pa.Array, table: Table, name: str) -> pa.Array:
    """Return a column as the cells of its rows."""
    import pyarrow as pa  # noqa: PLC0415 - an optional extra
    import pyarrow.compute as pc  # noqa: PLC0415 - an optional extra

    from forebay.arrow.json_rows import is_quoted, json_text  # noqa: PLC0415 - an optional extra

    kind = values.type
    if table.takes_json(name):
        text = _escaped(json_text(values))
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        text = _escaped(values.cast(pa.string()))
    elif name in table.binary and is_binary(kind):
        text = pa.array([rf"\\x{(value or b'').hex()}" for value in values.to_pylist()], pa.string())
    elif is_quoted(kind) or pa.types.is_floating(kind):
        text = pc.utf8_trim(json_text(values), characters='"')
    else:
        text = json_text(values)
    return pc.if_else(values.is_valid(), text, NULL) if values.null_count else text


def _escaped(text: pa.Array) -> pa.Array:
    import pyarrow.compute as pc  # noqa: PLC0415 - an optional extra

    from forebay.arrow.json_rows import text_bytes  # noqa: PLC0415 - an optional extra

    data = text_bytes(text)
    for character, escape in _ESCAPES:
        if character.encode() in data:
            text = pc.replace_substring(text, character, escape)
    return text


def _is_nested(kind: pa.DataType) -> bool:
    import pyarrow as pa  # noqa: PLC0415 - an optional extra

    return bool(pa.types.is_nested(kind))
