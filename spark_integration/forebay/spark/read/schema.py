"""Columns of a read: record columns, and metadata columns on request.

Other columns are not decoded. PySpark does not pass the used columns of a query to a source, so the options ``columns``
and ``metadata`` do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from forebay.spark.errors import ForebaySparkError
from forebay.spark.schema.column_names import matches

GAP_COLUMN: Final = "_gap"
_HEADERS: Final = ArrayType(
    StructType(
        [
            StructField("key", StringType(), nullable=False),
            StructField("value", BinaryType(), nullable=False),
        ]
    ),
    containsNull=False,
)
_GAP: Final = StructType(
    [
        StructField("first_offset", LongType(), nullable=False),
        StructField("last_offset", LongType(), nullable=False),
        StructField("reason", StringType(), nullable=False),
    ]
)
RECORD: Final = StructType(
    [
        StructField("partition", IntegerType(), nullable=False),
        StructField("offset", LongType(), nullable=False),
        StructField("accepted_at", TimestampType(), nullable=False),
        StructField("event_time", TimestampType()),
        StructField("key", BinaryType()),
        StructField("value", BinaryType(), nullable=False),
        StructField("headers", _HEADERS),
    ]
)
"""Columns of a record; missing key, headers and event time are null."""
METADATA: Final = StructType(
    [
        StructField("_sink", StringType(), nullable=False),
        StructField("_partition", IntegerType(), nullable=False),
        StructField("_offset", LongType(), nullable=False),
        StructField("_accepted_at", TimestampType(), nullable=False),
        StructField("_attempt", IntegerType()),
        StructField("_headers", _HEADERS),
        StructField(GAP_COLUMN, _GAP),
    ]
)
"""Metadata columns; ``_gap`` describes dropped records in a row of its own, without a value."""
_EVERY: Final = "true"
_NONE: Final = "false"
_NULL_IN_A_GAP: Final = ("accepted_at", "_accepted_at", "value")


def read_schema(columns: tuple[str, ...] | None, metadata: tuple[str, ...]) -> StructType:
    """Return the columns of a read of records. ``metadata`` may be ``true``: all but ``_gap``.

    Raises `ForebaySparkError` for a name that is none.
    """
    return _with(_chosen("columns", RECORD, columns), metadata, _NULL_IN_A_GAP)


def row_columns(rows: StructType, columns: tuple[str, ...] | None, metadata: tuple[str, ...]) -> StructType:
    """Return the columns of a read of rows with the schema ``rows``; see `read_schema`."""
    wanted = _chosen("columns", rows, columns)
    found = _with(wanted, metadata, rows.fieldNames())
    twice = {field.name for field in wanted} & set(METADATA.fieldNames())
    if twice and len(found.fields) > len(wanted):
        raise ForebaySparkError(
            f"The rows have a column {min(twice)}, and so has what there is about them.",
            "Leave option metadata out, or leave that column out of option columns.",
        )
    return found


def _with(wanted: list[StructField], metadata: tuple[str, ...], null_in_a_gap: Sequence[str]) -> StructType:
    if metadata == (_EVERY,):
        about = [field for field in METADATA.fields if field.name != GAP_COLUMN]
    else:
        about = _chosen("metadata", METADATA, () if metadata == (_NONE,) else metadata)
    fields = [*wanted, *about]
    if GAP_COLUMN in {field.name for field in about}:
        empty = {*null_in_a_gap, "_accepted_at"}
        fields = [
            StructField(field.name, field.dataType, nullable=field.nullable or field.name in empty) for field in fields
        ]
    return StructType(fields)


def _chosen(option: str, among: StructType, names: tuple[str, ...] | None) -> list[StructField]:
    if names is None:
        return list(among.fields)
    known = among.fieldNames()
    matched = matches(names, known)
    wrong = [name for name in names if name not in matched or names.count(name) > 1]
    if wrong:
        more = f"{_EVERY}, or " if among is METADATA else ""
        raise ForebaySparkError(
            f"Option {option} names {wrong[0]!r}, which is no column of it or was named before.",
            f"Set it to {more}some of: {', '.join(known)}.",
        )
    return [among[matched[name]] for name in names]
