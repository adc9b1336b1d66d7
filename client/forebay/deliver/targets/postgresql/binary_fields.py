"""Fields of rows with a schema whose values are bytes.

JSON has them as base64, which a column of bytes would take for the bytes themselves.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Collection
from functools import lru_cache
from typing import Any, Final

from forebay.client.values.records import Encoding, StoredPage
from forebay.client.values.schemas import Schema
from forebay.deliver.targets.postgresql.table import Table

NO_FIELDS: Final[frozenset[str]] = frozenset()


def binary_fields(page: StoredPage, table: Table) -> frozenset[str]:
    """Return the fields of the rows of a page that are bytes, and so are their columns."""
    if page.encoding is not Encoding.ARROW or not table.binary:
        return NO_FIELDS
    from forebay.client import arrow  # noqa: PLC0415 - an optional extra, which has read the rows

    return table.binary & _binary_fields(arrow.schema_of(page))


def with_bytes(found: dict[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """Return an object with base64 in some fields replaced by the text that PostgreSQL has for bytes."""
    return found | {name: rf"\x{b64decode(found[name]).hex()}" for name in fields if found[name] is not None}


@lru_cache(64)
def _binary_fields(schema: Schema) -> frozenset[str]:
    import pyarrow as pa  # noqa: PLC0415 - an optional extra

    from forebay.client import arrow  # noqa: PLC0415 - an optional extra

    kinds = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    fields = arrow.arrow_schema(schema)
    return frozenset(field.name for field in fields if any(is_kind(field.type) for is_kind in kinds))
