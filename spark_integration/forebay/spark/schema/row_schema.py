"""Schema of a sink's rows: the registered one, and its next version with the rows of a write.

A sink's schema is nullable throughout and only grows: columns and nested fields are added, and types become wider if a
write requests it. Every page of every version can then be read with the latest one. Columns match by name. Pure
decisions on Spark's types, without calls of the broker.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StructField,
    StructType,
    UserDefinedType,
)

from forebay.spark.errors import ForebaySparkError
from forebay.spark.schema.column_names import matches, repeated

_ADVICE: Final = (
    'Write to another sink, adapt the columns with select and cast, or write records: .option("row_format", "json").'
)


def check_rows(schema: StructType, *, case_sensitive: bool = False) -> None:
    """Raise `ForebaySparkError` for a column without an Arrow type, or that could not be read back."""
    _check_names("", schema, case_sensitive=case_sensitive)
    from forebay.spark.schema.arrow_types import arrow_type  # noqa: PLC0415 - imports pyarrow

    for field in schema.fields:
        inside = _user_defined(field.dataType)
        if inside is not None:
            raise ForebaySparkError(
                f"Column {field.name} is {inside.simpleString()}, a user-defined type, which rows cannot have.",
                'Cast it to its parts, or write whole rows as JSON with .option("row_format", "json").',
            )
        try:
            arrow_type(field.dataType)
        except PySparkException as error:
            raise ForebaySparkError(
                f"Column {field.name} is {field.dataType.simpleString()}, which Arrow has no type for.",
                "Replace it by a cast to string.",
            ) from error


def _check_names(path: str, kind: DataType, *, case_sensitive: bool) -> None:
    """Raise `ForebaySparkError` for a repeated name, at any depth, because columns match by name."""
    if isinstance(kind, StructType):
        names = kind.fieldNames()
        again = repeated(names, case_sensitive=case_sensitive)
        if again is not None and names.count(again) > 1:
            raise ForebaySparkError(
                f"The name {path}{again} occurs more than once.", "Rename columns so that each name is unique."
            )
        if again is not None:
            raise ForebaySparkError(f"Another column differs from {path}{again} by case only.", _CASE_ADVICE)
        for field in kind.fields:
            _check_names(f"{path}{field.name}.", field.dataType, case_sensitive=case_sensitive)
    elif isinstance(kind, ArrayType):
        _check_names(path, kind.elementType, case_sensitive=case_sensitive)
    elif isinstance(kind, MapType):
        _check_names(path, kind.keyType, case_sensitive=case_sensitive)
        _check_names(path, kind.valueType, case_sensitive=case_sensitive)


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


@dataclass(frozen=True, slots=True)
class MergeRules:
    """Changes that a write may make to the schema of its sink."""

    merge_schema: bool = True
    """New columns and nested fields are added; without it they are rejected."""

    type_widening: bool = False
    """A column takes the wider type of the rows; without it that is rejected."""

    case_sensitive: bool = False
    """Names that differ by case are different, as with ``spark.sql.caseSensitive``."""


USUAL: Final = MergeRules()
"""Default rules."""


def nullable(kind: DataType) -> DataType:
    """Return a type in which every part may be null, as in files and tables of Spark."""
    if isinstance(kind, StructType):
        return nullable_schema(kind)
    if isinstance(kind, ArrayType):
        return ArrayType(nullable(kind.elementType), containsNull=True)
    if isinstance(kind, MapType):
        return MapType(nullable(kind.keyType), nullable(kind.valueType), valueContainsNull=True)
    return kind


def nullable_schema(schema: StructType) -> StructType:
    """Return a schema in which every column and nested field may be null."""
    return StructType([StructField(one.name, nullable(one.dataType), True, one.metadata) for one in schema.fields])


def merged_schema(
    known: StructType, rows: StructType, *, sink: str, version: int, rules: MergeRules = USUAL
) -> StructType:
    """Return the schema that can store both the existing rows and these, nullable throughout.

    The order of columns is that of ``known``, followed by new ones. A column that the rows lack stays. Raises
    `ForebaySparkError` with all differences that ``rules`` do not allow.
    """
    merge = _Merge(rules)
    schema = merge.structs("", known, rows)
    if merge.wrong:
        lines = "\n  ".join(merge.wrong)
        raise ForebaySparkError(
            f"The rows do not fit version {version} of the schema of sink {sink!r}:\n  {lines}",
            " ".join(dict.fromkeys([*merge.advice, _ADVICE])),
        )
    return schema


def readable_as(known: StructType, asked: StructType) -> bool:
    """Return True if rows of a sink can be read with a schema that a user has set.

    Its columns and nested fields must be a subset of the sink's, with the same or wider types.
    """
    names = matches(asked.fieldNames(), known.fieldNames())
    return all(
        field.name in names and _readable(known[names[field.name]].dataType, field.dataType) for field in asked.fields
    )


def parse(spark_schema: str) -> StructType | None:
    """Return a registered schema as a Spark schema; None if it was not registered by Spark."""
    try:
        return StructType.fromJson(json.loads(spark_schema)) if spark_schema else None
    except (ValueError, LookupError, TypeError, AttributeError, PySparkException):
        return None  # any client may register any text


class _Merge:
    """Comparison of rows with a schema: the merged schema, and all conflicts."""

    def __init__(self, rules: MergeRules) -> None:
        self._rules = rules
        self.wrong: list[str] = []
        self.advice: list[str] = []

    def structs(self, path: str, known: StructType, given: StructType) -> StructType:
        """Return the fields of both. ``path`` is empty for top-level columns."""
        fields: list[StructField] = []
        new = {field.name: field for field in given.fields}
        names = matches(known.fieldNames(), list(new), case_sensitive=self._rules.case_sensitive)
        for field in known.fields:
            kind = nullable(field.dataType)
            if field.name in names:
                kind = self.types(path + field.name, field.dataType, new.pop(names[field.name]).dataType)
            fields.append(StructField(field.name, kind, True, field.metadata))
        for field in new.values():
            self._add(path, field, StructType(fields))
            fields.append(StructField(field.name, nullable(field.dataType), True, field.metadata))
        return StructType(fields)

    def types(self, path: str, known: DataType, given: DataType) -> DataType:
        """Return the type that represents both; record a conflict if there is none."""
        if isinstance(known, NullType) or isinstance(given, NullType):
            return nullable(given if isinstance(known, NullType) else known)
        if isinstance(known, StructType) and isinstance(given, StructType):
            return self.structs(f"{path}.", known, given)
        if isinstance(known, ArrayType) and isinstance(given, ArrayType):
            return ArrayType(self.types(f"{path}[]", known.elementType, given.elementType), containsNull=True)
        if isinstance(known, MapType) and isinstance(given, MapType):
            key = self.types(f"{path} (keys)", known.keyType, given.keyType)
            return MapType(key, self.types(f"{path} (values)", known.valueType, given.valueType), True)
        wider = wider_type(known, given)
        if wider == known:
            return known
        difference = f"~ {path} {known.simpleString()}    (in the rows: {given.simpleString()})"
        if wider is None:
            self.wrong.append(difference)
        elif not self._rules.type_widening:
            self.wrong.append(difference)
            self.advice.append(
                f'Allow wider types: .option("type_widening", "true"); or cast them, e.g. {path} to '
                f"{known.simpleString()}."
            )
        return wider or known

    def _add(self, path: str, field: StructField, beside: StructType) -> None:
        name = f"{path}{field.name} {field.dataType.simpleString()}"
        if not self._rules.merge_schema:
            self.wrong.append(f"+ {name}    (new)")
            self.advice.append('Allow new columns: .option("mergeSchema", "true").')
        alike = [one.name for one in beside.fields if one.name.lower() == field.name.lower()]
        if alike and not self._rules.case_sensitive:
            self.wrong.append(f"+ {name}    (differs from {alike[0]} by case only)")
            self.advice.append(_CASE_ADVICE)


_CASE_ADVICE: Final = (
    'Rename it, or set .option("case_sensitive", "true") if spark.sql.caseSensitive is true in this session and in '
    "those that read the sink."
)
_INTEGERS: Final = (ByteType, ShortType, IntegerType, LongType)
_FLOATS: Final = (FloatType, DoubleType)
DIGITS_MAX: Final = 38


def wider_type(known: DataType, given: DataType) -> DataType | None:
    """Return the narrowest type that represents all values of two simple types, None if there is none."""
    if known == given:
        return known
    for family in (_INTEGERS, _FLOATS):
        if isinstance(known, family) and isinstance(given, family):
            return max(known, given, key=lambda kind: family.index(type(kind)))
    if isinstance(known, DecimalType) and isinstance(given, DecimalType):
        scale = max(known.scale, given.scale)
        digits = max(known.precision - known.scale, given.precision - given.scale) + scale
        return DecimalType(digits, scale) if digits <= DIGITS_MAX else None
    return None


def _readable(known: DataType, asked: DataType) -> bool:
    if isinstance(known, NullType):
        return True
    if isinstance(known, StructType) and isinstance(asked, StructType):
        return readable_as(known, asked)
    if isinstance(known, ArrayType) and isinstance(asked, ArrayType):
        return _readable(known.elementType, asked.elementType)
    if isinstance(known, MapType) and isinstance(asked, MapType):
        return _readable(known.keyType, asked.keyType) and _readable(known.valueType, asked.valueType)
    return wider_type(known, asked) == asked
