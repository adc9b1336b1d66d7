"""Rows with a schema in the text format of PostgreSQL's COPY, converted by column.

A cell has the same text as one of the row's JSON object.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from forebay.arrow.json_rows import is_quoted, json_text, text_bytes
from forebay.arrow.kinds import is_bytes, is_text
from forebay.client import arrow
from forebay.client.values.records import StoredPage
from forebay.deliver.targets.postgresql.rows import ESCAPES, NULL, RowInvalid, Rows
from forebay.deliver.targets.postgresql.settings import UnknownFields
from forebay.deliver.targets.postgresql.table import Table


def schema_rows(page: StoredPage, table: Table, unknown: UnknownFields) -> Rows | None:
    """Return the requested rows of a page with a schema, None if they have to be converted one by one.

    Raises as ``json_rows`` does.
    """
    rows, unreadable = arrow.readable_rows(page)
    names = rows.schema.names
    if unreadable or len(set(names)) < len(names):
        return None
    columns = table.columns_of(names, unknown)
    found = {name: _decoded(rows.column(name)) for name in columns}
    if any(pa.types.is_nested(values.type) and not table.takes_json(name) for name, values in found.items()):
        return None  # their text has the spaces of JSON
    for name, values in found.items():
        if not table.takes_null(name) and values.null_count:
            raise RowInvalid(f"the field {name[:60]!r} of the key is null")
    return Rows(columns, _lines([_cells(values, table, name) for name, values in found.items()]))


def _decoded(values: pa.Array) -> pa.Array:
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def _lines(cells: Sequence[pa.Array]) -> bytes:
    *others, last = cells
    return text_bytes(pc.binary_join_element_wise(*others, pc.binary_join_element_wise(last, "", "\n"), "\t"))


def _cells(values: pa.Array, table: Table, name: str) -> pa.Array:
    """Return a column as the cells of its rows."""
    kind = values.type
    if table.takes_json(name):
        text = _escaped(json_text(values))
    elif is_text(kind):
        text = _escaped(values.cast(pa.string()))
    elif name in table.binary and is_bytes(kind):
        text = pa.array([rf"\\x{(value or b'').hex()}" for value in values.to_pylist()], pa.string())
    elif is_quoted(kind) or pa.types.is_floating(kind):
        text = pc.utf8_trim(json_text(values), characters='"')
    else:
        text = json_text(values)
    return pc.if_else(values.is_valid(), text, NULL) if values.null_count else text


def _escaped(text: pa.Array) -> pa.Array:
    data = text_bytes(text)
    for character, escape in ESCAPES.items():
        if character.encode() in data:
            text = pc.replace_substring(text, character, escape)
    return text
