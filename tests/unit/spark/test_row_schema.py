"""A sink's schema only grows, so that every page can be read with the latest version."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    UserDefinedType,
    VariantType,
    YearMonthIntervalType,
)

from holdfast.spark.errors import HoldfastSparkError
from holdfast.spark.row_schema import check_rows, grown, parse, readable_as

LONG, STRING = LongType(), StringType()


def schema(*fields: tuple[str, DataType, bool]) -> StructType:
    return StructType([StructField(*field) for field in fields])


KNOWN = schema(("id", LONG, False), ("name", STRING, True))


def grow(known: StructType, rows: StructType) -> StructType:
    return grown(known, rows, sink="orders", version=3)


@pytest.mark.parametrize(
    "rows",
    [
        KNOWN,
        schema(("name", STRING, True), ("id", LONG, False)),
        schema(("id", LONG, False), ("name", STRING, False)),
        schema(("id", LONG, False), ("name", NullType(), True)),
    ],
    ids=["the same", "another order", "never null", "nothing but null"],
)
def test_rows_that_fit_change_nothing(rows: StructType) -> None:
    assert grow(KNOWN, rows) == KNOWN


def test_a_nullable_column_is_added_behind() -> None:
    rows = schema(("more", ArrayType(LONG), True), ("name", STRING, True), ("id", LONG, False))

    assert grow(KNOWN, rows).fieldNames() == ["id", "name", "more"]


@pytest.mark.parametrize(
    ("known", "given", "grows_to"),
    [
        (ArrayType(LONG, False), ArrayType(LONG, True), ArrayType(LONG, True)),
        (ArrayType(LONG, True), ArrayType(LONG, False), ArrayType(LONG, True)),
        (MapType(STRING, LONG, False), MapType(STRING, LONG, True), MapType(STRING, LONG, True)),
        (NullType(), LONG, LONG),
        (
            schema(("a", LONG, False), ("b", NullType(), True)),
            schema(("a", LONG, True), ("b", STRING, True)),
            schema(("a", LONG, True), ("b", STRING, True)),
        ),
    ],
    ids=str,
)
def test_what_may_be_null_only_becomes_more(known: DataType, given: DataType, grows_to: DataType) -> None:
    found = grow(schema(("c", known, False)), schema(("c", given, True)))

    assert found == schema(("c", grows_to, True))


@pytest.mark.parametrize(
    "given",
    [STRING, IntegerType(), ArrayType(LONG), DecimalType(10, 2), schema(("a", LONG, True))],
    ids=str,
)
def test_another_type_is_refused(given: DataType) -> None:
    with pytest.raises(HoldfastSparkError, match=r"~ c decimal\(10,1\)    \(in the rows: "):
        grow(schema(("c", DecimalType(10, 1), True)), schema(("c", given, True)))


@pytest.mark.parametrize(
    ("known", "given"),
    [
        (schema(("a", LONG, True)), schema(("a", LONG, True), ("b", LONG, True))),
        (schema(("a", LONG, True)), schema(("b", LONG, True))),
        (ArrayType(LONG), ArrayType(STRING)),
        (MapType(LONG, STRING), MapType(LONG, LONG)),
        (MapType(LONG, STRING), MapType(STRING, STRING)),
        (TimestampType(), TimestampNTZType()),
        (StringType(), StringType("UNICODE_CI")),
    ],
    ids=str,
)
def test_another_type_inside_is_another_type(known: DataType, given: DataType) -> None:
    with pytest.raises(HoldfastSparkError, match="~ c "):
        grow(schema(("c", known, True)), schema(("c", given, True)))


def test_all_differences_are_told_at_once() -> None:
    rows = schema(("id", STRING, True), ("source", STRING, False), ("note", STRING, True))

    with pytest.raises(HoldfastSparkError) as refused:
        grow(KNOWN, rows)

    assert refused.value.problem.splitlines() == [
        "The rows do not fit version 3 of the schema of sink 'orders':",
        "  ~ id bigint not null    (in the rows: string)",
        "  - name string    (not in the rows)",
        "  + source string not null    (new, and older rows have none: it must be nullable)",
    ]
    assert "Write to another sink" in refused.value.remedy


def test_columns_of_a_schema_may_be_read_alone_but_not_as_something_else() -> None:
    assert readable_as(KNOWN, schema(("name", STRING, True)))
    assert not readable_as(KNOWN, schema(("name", LONG, True)))
    assert not readable_as(KNOWN, schema(("other", LONG, True)))


@pytest.mark.parametrize("kind", [YearMonthIntervalType(), CalendarIntervalType(), ArrayType(CalendarIntervalType())])
def test_types_that_arrow_does_not_have_are_refused(kind: DataType) -> None:
    with pytest.raises(HoldfastSparkError, match=r"Column c is .*, which Arrow has no type for") as refused:
        check_rows(schema(("id", LONG, False), ("c", kind, True)))

    assert "cast to string" in refused.value.remedy


class Point(UserDefinedType):
    """A type of a user's own."""

    @classmethod
    def sqlType(cls) -> StructType:
        return schema(("x", LONG, True))


@pytest.mark.parametrize("kind", [Point(), ArrayType(Point()), MapType(LONG, schema(("p", Point(), True)))])
def test_a_type_of_a_users_own_is_refused_wherever_it_stands(kind: DataType) -> None:
    with pytest.raises(HoldfastSparkError, match=r"Column c is .*, a user's own type"):
        check_rows(schema(("c", kind, True)))


def test_a_schema_survives_its_registration() -> None:
    rows = schema(("v", VariantType(), True), ("s", StringType("UNICODE_CI"), True), ("m", MapType(LONG, STRING), True))

    assert parse(rows.json()) == rows
    assert parse("") is None
