"""Mapping of a DataFrame's columns to records, decided once in the driver from Spark's schema.

Only the driver has Spark's own types: a VARIANT reaches a task as a plain struct of two binaries, and would silently
become unreadable base64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    UserDefinedType,
    YearMonthIntervalType,
)

from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.write import AUTO, Rows, WriteOptions
from forebay.spark.schema.column_names import matches
from forebay.spark.versions import CALENDAR_INTERVAL_TYPES, SPATIAL_TYPES, VARIANT_TYPES

RECORD_COLUMNS: Final = ("value", "key", "headers", "partition", "event_time")

_JSON_REMEDY: Final = 'or write whole rows with .option("row_format", "arrow") or "json".'
_UNWRITABLE: Final[dict[type[DataType], str]] = {
    **dict.fromkeys(VARIANT_TYPES, "to_json(column) or a cast to string"),
    **dict.fromkeys(SPATIAL_TYPES, "st_asbinary(column)"),
    **dict.fromkeys(CALENDAR_INTERVAL_TYPES, "a cast to string"),
    YearMonthIntervalType: "a cast to string",
}


@dataclass(frozen=True, slots=True)
class RowPlan:
    """Stored form of rows: records of their own columns, JSON objects, or rows with a schema."""

    kind: Rows
    """`RECORD`, `JSON` or `ARROW`."""

    columns: tuple[str, ...]
    """The columns, in the order of the schema."""

    def has(self, name: str) -> bool:
        """Return True if rows are records and have this column."""
        return self.kind is Rows.RECORD and name in self.columns


def plan_of(schema: StructType, options: WriteOptions) -> RowPlan:
    """Return the stored form of rows with the options of their write. Raises `ForebaySparkError`."""
    return plan_rows(
        schema,
        options.rows,
        options.partition_by,
        options.arrow_dictionary,
        case_sensitive=options.case_sensitive,
    )


def plan_rows(
    schema: StructType,
    rows: Rows,
    partition_by: tuple[str, ...] = (),
    arrow_dictionary: tuple[str, ...] = (),
    *,
    case_sensitive: bool = False,
) -> RowPlan:
    """Return the stored form of rows of a schema. Raises `ForebaySparkError` if it is unclear or invalid."""
    kind = rows
    if rows in {Rows.AUTO, Rows.RECORD}:
        of_records = with_event_time(schema)
        if rows is Rows.RECORD or _looks_like_records(of_records):
            schema = of_records
    names = tuple(schema.fieldNames())
    if rows is Rows.AUTO:
        kind = Rows.RECORD if _looks_like_records(schema) else Rows.ARROW
    if kind is Rows.RECORD:
        _check_records(schema)
    elif kind is Rows.JSON:
        _check_json(schema)
    else:
        _check_columns(schema)
    _check_partition_by(kind, schema, partition_by, case_sensitive=case_sensitive)
    _check_dictionary(kind, schema, arrow_dictionary, case_sensitive=case_sensitive)
    return RowPlan(kind, names)


def with_event_time(schema: StructType) -> StructType:
    """Return a schema of records with ``timestamp``, the name in Kafka's connector, as ``event_time``."""
    names = schema.fieldNames()
    if "timestamp" not in names or "event_time" in names:
        return schema
    return StructType(
        [
            StructField("event_time", field.dataType, field.nullable) if field.name == "timestamp" else field
            for field in schema.fields
        ]
    )


def _looks_like_records(schema: StructType) -> bool:
    """Return True for a string or binary ``value`` and, otherwise, only names of record columns."""
    names = schema.fieldNames()
    return (
        set(names) <= set(RECORD_COLUMNS)
        and "value" in names
        and isinstance(schema["value"].dataType, StringType | BinaryType)
    )


def _check_records(schema: StructType) -> None:
    names = schema.fieldNames()
    _check_once(names)
    for name in names:
        if name not in RECORD_COLUMNS:
            raise ForebaySparkError(
                f"Column {name} has no place in a record.",
                f"Select only {', '.join(RECORD_COLUMNS)}, {_JSON_REMEDY}",
            )
    if "value" not in names:
        raise ForebaySparkError(
            "Rows are written as records, but there is no column value.",
            f"Name the payload: select(... .alias('value')), {_JSON_REMEDY}",
        )
    for field in schema.fields:
        if not _fits(field.name, field.dataType):
            raise ForebaySparkError(
                f"Column {field.name} is {field.dataType.simpleString()}, a record needs {_NEEDED[field.name]}.",
                f"Cast it, {_JSON_REMEDY}",
            )


_NEEDED: Final = {
    "value": "string or binary",
    "key": "string or binary",
    "headers": "array<struct<key:string,value:binary>>",
    "partition": "int or bigint",
    "event_time": "timestamp",
}


def _fits(name: str, kind: DataType) -> bool:
    if name in {"value", "key"}:
        return isinstance(kind, StringType | BinaryType)
    if name == "partition":
        return isinstance(kind, IntegerType | LongType | ShortType | ByteType)
    if name == "event_time":
        return isinstance(kind, TimestampType)
    entry = kind.elementType if isinstance(kind, ArrayType) else None
    return (
        isinstance(entry, StructType)
        and entry.fieldNames() == ["key", "value"]
        and isinstance(entry["key"].dataType, StringType)
        and isinstance(entry["value"].dataType, StringType | BinaryType)
    )


def _check_columns(schema: StructType) -> None:
    names = schema.fieldNames()
    if not names:
        raise ForebaySparkError("The rows have no columns.", "Select at least one column.")
    _check_once(names)


def _check_partition_by(kind: Rows, schema: StructType, partition_by: tuple[str, ...], *, case_sensitive: bool) -> None:
    if partition_by and kind is not Rows.ARROW:
        raise ForebaySparkError(
            f"Option partition_by is for rows with a schema; these are written as {kind.value}.",
            'Name the key of a record by a column key, or set .option("row_format", "arrow").',
        )
    known = matches(partition_by, schema.fieldNames(), case_sensitive=case_sensitive)
    for name in partition_by:
        if name not in known:
            raise ForebaySparkError(
                f"Option partition_by names the column {name}, which the rows do not have.",
                f"Use one of: {', '.join(schema.fieldNames())}.",
            )


def _check_dictionary(
    kind: Rows, schema: StructType, arrow_dictionary: tuple[str, ...], *, case_sensitive: bool
) -> None:
    if arrow_dictionary and kind is not Rows.ARROW:
        raise ForebaySparkError(
            f"Option arrow_dictionary is for rows with a schema; these are written as {kind.value}.",
            'Leave it out, or set .option("row_format", "arrow").',
        )
    suitable = [field.name for field in schema.fields if isinstance(field.dataType, StringType | BinaryType)]
    known = {AUTO: AUTO} | matches(arrow_dictionary, suitable, case_sensitive=case_sensitive)
    for name in arrow_dictionary:
        if name not in known:
            found = schema[name].dataType.simpleString() if name in schema.fieldNames() else "none of the columns"
            raise ForebaySparkError(
                f"Option arrow_dictionary names {name}, which is {found}: only strings and binaries that are columns"
                " themselves, and no part of one, may have a dictionary.",
                f"Use some of: {', '.join((AUTO, *suitable))}.",
            )


def _check_json(schema: StructType) -> None:
    _check_columns(schema)
    for field in schema.fields:
        _check_writable(field.name, field.dataType)


def _check_once(names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ForebaySparkError(
            f"The column name {twice[0]} occurs more than once.", "Rename columns until every name is unique."
        )


def _check_writable(path: str, kind: DataType) -> None:
    for unwritable, instead in _UNWRITABLE.items():
        if isinstance(kind, unwritable):
            raise ForebaySparkError(
                f"Column {path} is {kind.simpleString()}, which has no JSON form here.",
                f"Replace it by {instead}.",
            )
    if isinstance(kind, UserDefinedType):
        _check_writable(path, kind.sqlType())
    elif isinstance(kind, StructType):
        _check_once(kind.fieldNames())
        for field in kind.fields:
            _check_writable(f"{path}.{field.name}", field.dataType)
    elif isinstance(kind, ArrayType):
        _check_writable(f"{path}[]", kind.elementType)
    elif isinstance(kind, MapType):
        _check_writable(f"{path} (keys)", kind.keyType)
        _check_writable(f"{path} (values)", kind.valueType)
