"""Fields of rows with a schema whose values are bytes.

JSON has them as base64, which a column of bytes would take for the bytes themselves.
"""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa

from forebay.arrow.kinds import is_bytes
from forebay.client import arrow
from forebay.client.values.records import Encoding, StoredPage
from forebay.client.values.schemas import Schema
from forebay.deliver.targets.postgresql.table import Table


def binary_fields(page: StoredPage, table: Table) -> frozenset[str]:
    """Return the fields of the rows of a page that are bytes, and so are their columns."""
    if page.encoding is not Encoding.ARROW:
        return frozenset()
    return table.binary & _binary_fields(arrow.schema_of(page))


@lru_cache(64)
def _binary_fields(schema: Schema) -> frozenset[str]:
    kinds = {field.name: field.type for field in arrow.arrow_schema(schema)}  # of two with one name JSON has the last
    plain = {name: kind.value_type if pa.types.is_dictionary(kind) else kind for name, kind in kinds.items()}
    return frozenset(name for name, kind in plain.items() if is_bytes(kind))
