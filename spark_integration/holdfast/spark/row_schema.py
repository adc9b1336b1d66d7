"""What schema the rows of a write get in their sink: the one that is registered, or what it becomes with them.

A sink's schema only grows: columns may be added that may be null, and what may never be null may become nullable. Then
every page of every version can be read with the latest one. Pure decisions on Spark's types; nothing is asked of a
broker here.
"""

from __future__ import annotations

import json
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructField, StructType, UserDefinedType

from holdfast.spark.errors import HoldfastSparkError

_ADVICE: Final = (
    'Write to another sink, make the columns fit with select and cast, or write records: .option("row_format", "json").'
)


def check_rows(schema: StructType) -> None:
    """Raise `HoldfastSparkError` for a column that Arrow has no type for, or that could not be read back."""
    from pyspark.sql.pandas.types import to_arrow_type  # noqa: PLC0415 - imports pyarrow

    for field in schema.fields:
        inside = _user_defined(field.dataType)
        if inside is not None:
            raise HoldfastSparkError(
                f"Column {field.name} is {inside.simpleString()}, a user's own type, which no schema of rows has.",
                'Cast it to its parts, or write whole rows as JSON with .option("row_format", "json").',
            )
        try:
            to_arrow_type(field.dataType, timezone="UTC")
        except PySparkException as error:
            raise HoldfastSparkError(
                f"Column {field.name} is {field.dataType.simpleString()}, which Arrow has no type for.",
                "Replace it by a cast to string.",
            ) from error


def _user_defined(kind: DataType) -> DataType | None:
    if isinstance(kind, UserDefinedType):
        return kind
    if isinstance(kind, StructType):
        inside = [field.dataType for field in kind.fields]
    elif isinstance(kind, ArrayType):
        inside = [kind.elementType]
    elif isinstance(kind, MapType):
        inside = [kind.keyType, kind.valueType]
    else:
        inside = []
    return next((found for each in inside if (found := _user_defined(each)) is not None), None)


def grown(known: StructType, rows: StructType, *, sink: str, version: int) -> StructType:
    """Return the schema that holds what is there and these rows; ``known`` itself where nothing has to change.

    The order of columns is that of ``known``, with new ones behind. Raises `HoldfastSparkError` with the differences
    when a column is missing, has another type, or is new and can never be null: then older rows have nothing to show.
    """
    wrong: list[str] = []
    fields: list[StructField] = []
    given = {field.name: field for field in rows.fields}
    for field in known.fields:
        found = given.pop(field.name, None)
        kind = None if found is None else _widened(field.dataType, found.dataType)
        if found is None:
            wrong.append(f"- {_column(field)}    (not in the rows)")
        elif kind is None:
            wrong.append(f"~ {_column(field)}    (in the rows: {found.dataType.simpleString()})")
        else:
            fields.append(StructField(field.name, kind, field.nullable or found.nullable, field.metadata))
    for field in given.values():
        if not field.nullable:
            wrong.append(f"+ {_column(field)}    (new, and older rows have none: it must be nullable)")
        fields.append(field)
    if wrong:
        lines = "\n  ".join(wrong)
        raise HoldfastSparkError(
            f"The rows do not fit version {version} of the schema of sink {sink!r}:\n  {lines}", _ADVICE
        )
    return StructType(fields)


def readable_as(known: StructType, asked: StructType) -> bool:
    """Say whether rows of a sink can be read with a schema that a user has set: columns of it, with their types."""
    return all(
        field.name in known.fieldNames() and _widened(known[field.name].dataType, field.dataType) is not None
        for field in asked.fields
    )


def parse(spark_schema: str) -> StructType | None:
    """Return a registered schema as Spark's; None when somebody else than Spark has registered it."""
    return StructType.fromJson(json.loads(spark_schema)) if spark_schema else None


def _widened(known: DataType, given: DataType) -> DataType | None:
    """Return the type that holds both: they differ in what may be null at most. None for other differences."""
    if isinstance(known, NullType):
        return given
    if isinstance(given, NullType):
        return known
    if isinstance(known, StructType) and isinstance(given, StructType):
        if known.fieldNames() != given.fieldNames():
            return None
        kinds = [_widened(a.dataType, b.dataType) for a, b in zip(known.fields, given.fields, strict=True)]
        return (
            StructType(
                [
                    StructField(a.name, kind, a.nullable or b.nullable, a.metadata)
                    for a, b, kind in zip(known.fields, given.fields, kinds, strict=True)
                    if kind is not None
                ]
            )
            if None not in kinds
            else None
        )
    if isinstance(known, ArrayType) and isinstance(given, ArrayType):
        element = _widened(known.elementType, given.elementType)
        return None if element is None else ArrayType(element, known.containsNull or given.containsNull)
    if isinstance(known, MapType) and isinstance(given, MapType):
        key, value = _widened(known.keyType, given.keyType), _widened(known.valueType, given.valueType)
        if key is None or value is None:
            return None
        return MapType(key, value, known.valueContainsNull or given.valueContainsNull)
    return known if known == given else None


def _column(field: StructField) -> str:
    return f"{field.name} {field.dataType.simpleString()}{'' if field.nullable else ' not null'}"
