"""A sink's schema only grows, so that every page can be read with the latest version."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    CalendarIntervalType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    UserDefinedType,
    VariantType,
    YearMonthIntervalType,
)

from forebay.spark.errors import ForebaySparkError
from forebay.spark.schema.row_schema import MergeRules, check_rows, merged_schema, nullable_schema, parse, readable_as

LONG, STRING = LongType(), StringType()


def schema(*fields: tuple[str, DataType, bool]) -> StructType:
    return StructType([StructField(*field) for field in fields])


KNOWN = schema(("id", LONG, True), ("name", STRING, True))


def grow(known: StructType, rows: StructType, **rules: bool) -> StructType:
    return merged_schema(known, rows, sink="orders", version=3, rules=MergeRules(**rules))


@pytest.mark.parametrize(
    "rows",
    [
        KNOWN,
        schema(("name", STRING, True), ("id", LONG, True)),
        schema(("id", LONG, False), ("name", STRING, False)),
        schema(("id", LONG, True), ("name", NullType(), True)),
        schema(("id", LONG, True)),
        schema(("ID", LONG, True), ("Name", STRING, True)),
        schema(("id", IntegerType(), True)),
    ],
    ids=["the same", "another order", "never null", "nothing but null", "one left out", "another case", "narrower"],
)
def test_rows_that_fit_change_nothing(rows: StructType) -> None:
    assert grow(KNOWN, rows) == KNOWN


def test_a_schema_that_is_registered_is_nullable_throughout() -> None:
    rows = schema(
        ("a", schema(("b", ArrayType(LONG, False), False)), False), ("m", MapType(STRING, LONG, False), False)
    )

    assert nullable_schema(rows) == schema(
        ("a", schema(("b", ArrayType(LONG, True), True)), True), ("m", MapType(STRING, LONG, True), True)
    )
    assert grow(rows, rows) == nullable_schema(rows)


def test_a_new_column_is_added_at_the_end_and_is_nullable_also_when_it_is_a_literal() -> None:
    rows = schema(("more", ArrayType(LONG, False), False), ("name", STRING, True), ("id", LONG, False))

    assert grow(KNOWN, rows) == StructType([*KNOWN.fields, StructField("more", ArrayType(LONG, True), True)])


@pytest.mark.parametrize(
    ("known", "given", "grows_to"),
    [
        (NullType(), LONG, LONG),
        (schema(("a", LONG, True)), schema(("b", LONG, False)), schema(("a", LONG, True), ("b", LONG, True))),
        (
            ArrayType(schema(("a", LONG, True))),
            ArrayType(schema(("b", STRING, True), ("a", LONG, True))),
            ArrayType(schema(("a", LONG, True), ("b", STRING, True))),
        ),
        (
            MapType(STRING, schema(("a", NullType(), True))),
            MapType(STRING, schema(("A", LONG, True), ("b", LONG, True))),
            MapType(STRING, schema(("a", LONG, True), ("b", LONG, True))),
        ),
    ],
    ids=["void", "struct", "structs in an array", "structs in a map"],
)
def test_nested_fields_are_added(known: DataType, given: DataType, grows_to: DataType) -> None:
    assert grow(schema(("c", known, True)), schema(("c", given, False))) == schema(("c", grows_to, True))


@pytest.mark.parametrize(
    ("known", "given", "wider"),
    [
        (ByteType(), ShortType(), ShortType()),
        (IntegerType(), LONG, LONG),
        (FloatType(), DoubleType(), DoubleType()),
        (DecimalType(10, 1), DecimalType(10, 2), DecimalType(11, 2)),
        (ArrayType(IntegerType()), ArrayType(LONG), ArrayType(LONG)),
        (MapType(IntegerType(), FloatType()), MapType(LONG, DoubleType()), MapType(LONG, DoubleType())),
        (schema(("a", IntegerType(), True)), schema(("a", LONG, True)), schema(("a", LONG, True))),
    ],
    ids=str,
)
def test_a_wider_type_is_taken_by_option_and_a_narrower_one_never(
    known: DataType, given: DataType, wider: DataType
) -> None:
    before, rows = schema(("c", known, True)), schema(("c", given, True))

    assert grow(before, rows, type_widening=True) == schema(("c", wider, True))
    assert grow(schema(("c", wider, True)), before) == schema(("c", wider, True))
    with pytest.raises(ForebaySparkError, match="~ c") as refused:
        grow(before, rows)
    assert '.option("type_widening", "true")' in refused.value.remedy


@pytest.mark.parametrize(
    ("known", "given"),
    [
        (STRING, LONG),
        (LONG, DoubleType()),
        (ArrayType(LONG), ArrayType(STRING)),
        (MapType(LONG, STRING), MapType(STRING, STRING)),
        (ArrayType(LONG), LONG),
        (schema(("a", LONG, True)), schema(("a", STRING, True))),
        (TimestampType(), TimestampNTZType()),
        (StringType(), StringType("UNICODE_CI")),
        (DecimalType(38, 0), DecimalType(38, 38)),
    ],
    ids=str,
)
def test_another_type_is_refused(known: DataType, given: DataType) -> None:
    with pytest.raises(ForebaySparkError, match="~ c"):
        grow(schema(("c", known, True)), schema(("c", given, True)), type_widening=True)


def test_without_merge_schema_new_columns_and_fields_are_refused_and_missing_ones_are_not() -> None:
    known = schema(("id", LONG, True), ("s", schema(("a", LONG, True)), True))

    assert grow(known, schema(("id", LONG, True)), merge_schema=False) == known
    with pytest.raises(ForebaySparkError) as refused:
        grow(known, schema(("s", schema(("b", LONG, True)), True), ("x", LONG, True)), merge_schema=False)
    assert refused.value.problem.splitlines()[1:] == ["  + s.b bigint    (new)", "  + x bigint    (new)"]
    assert '.option("mergeSchema", "true")' in refused.value.remedy


def test_a_name_that_differs_in_its_case_alone_is_new_only_where_case_counts() -> None:
    rows = schema(("name", STRING, True), ("NAME", STRING, True))

    assert grow(KNOWN, rows, case_sensitive=True).fieldNames() == ["id", "name", "NAME"]
    assert grow(KNOWN, schema(("ID", LONG, True)), case_sensitive=True).fieldNames() == ["id", "name", "ID"]
    with pytest.raises(ForebaySparkError, match="differs from name by case only"):
        grow(KNOWN, rows)


@pytest.mark.parametrize(
    ("twice", "told"),
    [
        (schema(("a", LONG, True), ("a", LONG, True)), r"The name c\.a occurs more than once"),
        (schema(("a", LONG, True), ("A", LONG, True)), r"Another column differs from c\.A by case only"),
    ],
)
def test_names_are_alone_at_every_depth(twice: StructType, told: str) -> None:
    for kind in (twice, ArrayType(twice), MapType(twice, LONG), MapType(LONG, twice)):
        with pytest.raises(ForebaySparkError, match=told):
            check_rows(schema(("c", kind, True)))

    check_rows(schema(("c", schema(("a", LONG, True), ("A", LONG, True)), True)), case_sensitive=True)


def test_all_differences_are_reported_at_once() -> None:
    rows = schema(("id", STRING, True), ("name", ArrayType(STRING), True))

    with pytest.raises(ForebaySparkError) as refused:
        grow(KNOWN, rows)

    assert refused.value.problem.splitlines() == [
        "The rows do not fit version 3 of the schema of sink 'orders':",
        "  ~ id bigint    (in the rows: string)",
        "  ~ name string    (in the rows: array<string>)",
    ]
    assert "Write to another sink" in refused.value.remedy


def test_nested_fields_may_be_read_alone_and_types_may_be_wider() -> None:
    known = schema(("a", ArrayType(schema(("x", IntegerType(), True), ("y", LONG, True))), True))

    assert readable_as(known, schema(("A", ArrayType(schema(("x", LONG, False))), False)))
    assert not readable_as(known, schema(("a", ArrayType(schema(("y", IntegerType(), True))), True)))
    assert not readable_as(known, schema(("a", ArrayType(schema(("z", LONG, True))), True)))


def test_columns_of_a_schema_may_be_read_alone_but_not_as_something_else() -> None:
    assert readable_as(KNOWN, schema(("name", STRING, True)))
    assert not readable_as(KNOWN, schema(("name", LONG, True)))
    assert not readable_as(KNOWN, schema(("other", LONG, True)))


@pytest.mark.parametrize("kind", [YearMonthIntervalType(), CalendarIntervalType(), ArrayType(CalendarIntervalType())])
def test_types_that_arrow_does_not_have_are_refused(kind: DataType) -> None:
    with pytest.raises(ForebaySparkError, match=r"Column c is .*, which Arrow has no type for") as refused:
        check_rows(schema(("id", LONG, False), ("c", kind, True)))

    assert "cast to string" in refused.value.remedy


class Point(UserDefinedType):
    """A type of a user's own."""

    @classmethod
    def sqlType(cls) -> StructType:
        return schema(("x", LONG, True))


@pytest.mark.parametrize("kind", [Point(), ArrayType(Point()), MapType(LONG, schema(("p", Point(), True)))])
def test_a_type_of_a_users_own_is_refused_wherever_it_stands(kind: DataType) -> None:
    with pytest.raises(ForebaySparkError, match=r"Column c is .*, a user-defined type"):
        check_rows(schema(("c", kind, True)))


def test_a_schema_survives_its_registration() -> None:
    rows = schema(("v", VariantType(), True), ("s", StringType("UNICODE_CI"), True), ("m", MapType(LONG, STRING), True))

    assert parse(rows.json()) == rows
    assert parse("") is None


@pytest.mark.parametrize(
    "text", ["no JSON", "7", "[]", "{}", '{"fields": 3}', '{"fields": [{"name": "a", "type": "odd"}]}']
)
def test_a_text_that_is_no_schema_of_spark_is_taken_for_that_of_another_program(text: str) -> None:
    assert parse(text) is None
