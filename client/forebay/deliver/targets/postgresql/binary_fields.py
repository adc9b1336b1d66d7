"""Fields of rows with a schema whose values are bytes.

JSON has them as base64, which a column of bytes would take for the bytes themselves.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Collection
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from forebay.client.values.records import Encoding, StoredPage
from forebay.client.values.schemas import Schema
from forebay.deliver.targets.postgresql.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

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


def is_binary(kind: pa.DataType) -> bool:
    """Return True for a type of bytes."""
    import pyarrow as pa  # noqa: PLC0415 - an optional extra

    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


@lru_cache(64)
def _binary_fields(schema: Schema) -> frozenset[str]:
    import pyarrow as pa  # noqa: PLC0415 - an optional extra

    from forebay.client import arrow  # noqa: PLC0415 - an optional extra

    kinds = {field.name: field.type for field in arrow.arrow_schema(schema)}  # of two with one name JSON has the last
    plain = {name: kind.value_type if pa.types.is_dictionary(kind) else kind for name, kind in kinds.items()}
    return frozenset(name for name, kind in plain.items() if is_binary(kind))
