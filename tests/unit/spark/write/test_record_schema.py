"""The driver decides what rows become, and refuses what no task could write."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
    YearMonthIntervalType,
)

from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.write import Rows
from forebay.spark.write.record_schema import RowPlan, plan_rows

STRING, BINARY, LONG = StringType(), BinaryType(), LongType()
HEADERS = ArrayType(StructType([StructField("key", STRING), StructField("value", BINARY)]))


def schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


@pytest.mark.parametrize("kind", [STRING, BINARY])
def test_a_value_alone_is_a_record(kind: DataType) -> None:
    assert plan_rows(schema(value=kind), Rows.AUTO).kind is Rows.RECORD


def test_all_columns_of_a_record_in_any_order_are_a_record() -> None:
    plan = plan_rows(
        schema(event_time=TimestampType(), headers=HEADERS, value=BINARY, partition=IntegerType(), key=STRING),
        Rows.AUTO,
    )

    assert plan.kind is Rows.RECORD
    assert plan.has("headers")


@pytest.mark.parametrize(
    "columns",
    [{"value": LONG}, {"value": STRING, "station": STRING}, {"a": IntegerType()}, {"key": STRING}],
    ids=str,
)
def test_any_other_schema_is_rows_with_a_schema(columns: dict[str, DataType]) -> None:
    assert plan_rows(schema(**columns), Rows.AUTO).kind is Rows.ARROW
    assert plan_rows(schema(**columns), Rows.JSON).kind is Rows.JSON


def test_columns_that_choose_the_partition_are_columns_of_rows_with_a_schema() -> None:
    assert plan_rows(schema(a=LONG, b=STRING), Rows.AUTO, ("b",)).kind is Rows.ARROW
    with pytest.raises(ForebaySparkError, match="names the column c, which the rows do not have") as error:
        plan_rows(schema(a=LONG, b=STRING), Rows.AUTO, ("b", "c"))
    assert error.value.remedy == "Use one of: a, b."
    with pytest.raises(ForebaySparkError, match="written as json"):
        plan_rows(schema(a=LONG), Rows.JSON, ("a",))
    with pytest.raises(ForebaySparkError, match="written as record"):
        plan_rows(schema(value=STRING), Rows.AUTO, ("value",))


@pytest.mark.parametrize("options", [(("country",), ()), ((), ("country",))])
def test_columns_of_options_match_as_the_rows_do_in_case(options: tuple[tuple[str, ...], tuple[str, ...]]) -> None:
    assert plan_rows(schema(Country=STRING), Rows.ARROW, *options).kind is Rows.ARROW
    with pytest.raises(ForebaySparkError, match="country"):
        plan_rows(schema(Country=STRING), Rows.ARROW, *options, case_sensitive=True)


def test_columns_with_a_dictionary_are_strings_and_binaries_of_rows_with_a_schema() -> None:
    columns = schema(a=LONG, b=STRING, c=BINARY, d=StructType([StructField("e", STRING)]), f=ArrayType(STRING))

    assert plan_rows(columns, Rows.AUTO, (), ("b", "c", "auto")).kind is Rows.ARROW
    for name, kind in {"a": "bigint", "d": "struct<e:string>", "f": "array<string>"}.items():
        with pytest.raises(ForebaySparkError, match=f"arrow_dictionary names {name}, which is {kind}") as error:
            plan_rows(columns, Rows.AUTO, (), ("b", name))
        assert error.value.remedy == "Use some of: auto, b, c."
    for name in ("g", "d.e"):
        with pytest.raises(ForebaySparkError, match="none of the columns"):
            plan_rows(columns, Rows.AUTO, (), (name,))
    with pytest.raises(ForebaySparkError, match="written as json"):
        plan_rows(columns, Rows.JSON, (), ("b",))
    with pytest.raises(ForebaySparkError, match="written as record"):
        plan_rows(schema(value=STRING), Rows.AUTO, (), ("auto",))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"value": STRING, "partition": DoubleType()}, "partition is double, a record needs int or bigint"),
        ({"value": STRING, "event_time": TimestampNTZType()}, "event_time is timestamp_ntz, a record needs timestamp"),
        ({"value": STRING, "key": LONG}, "key is bigint"),
        ({"value": STRING, "headers": STRING}, "headers is string, a record needs array<struct<key:string"),
    ],
    ids=str,
)
def test_a_record_with_a_wrong_type_is_not_taken_for_other_rows(columns: dict[str, DataType], message: str) -> None:
    with pytest.raises(ForebaySparkError, match=message) as error:
        plan_rows(schema(**columns), Rows.AUTO)

    assert '.option("row_format", "arrow")' in error.value.remedy
    assert plan_rows(schema(**columns), Rows.JSON).kind is Rows.JSON


def test_records_that_are_demanded_must_be_records() -> None:
    with pytest.raises(ForebaySparkError, match="Column station has no place"):
        plan_rows(schema(value=STRING, station=STRING), Rows.RECORD)
    with pytest.raises(ForebaySparkError, match="there is no column value"):
        plan_rows(schema(key=STRING), Rows.RECORD)


@pytest.mark.parametrize(
    "kind",
    [
        VariantType(),
        ArrayType(VariantType()),
        MapType(STRING, VariantType()),
        StructType([StructField("x", VariantType())]),
    ],
    ids=str,
)
def test_a_type_that_would_arrive_in_disguise_is_refused_wherever_it_stands(kind: DataType) -> None:
    with pytest.raises(ForebaySparkError, match=r"Column a.* is variant") as error:
        plan_rows(schema(a=kind), Rows.JSON)

    assert "to_json" in error.value.remedy


def test_year_month_intervals_are_refused() -> None:
    with pytest.raises(ForebaySparkError, match="no JSON form"):
        plan_rows(StructType().add("a", YearMonthIntervalType()), Rows.JSON)


def test_column_names_must_be_unique_and_there_must_be_some() -> None:
    with pytest.raises(ForebaySparkError, match="occurs more than once"):
        plan_rows(StructType().add("a", LONG).add("a", LONG), Rows.AUTO)
    with pytest.raises(ForebaySparkError, match="no columns"):
        plan_rows(StructType(), Rows.AUTO)


def test_a_record_may_name_its_time_as_kafka_does_and_its_partition_by_a_bigint() -> None:
    rows = schema(value=STRING, timestamp=TimestampType(), partition=LONG)

    assert plan_rows(rows, Rows.AUTO) == RowPlan(Rows.RECORD, ("value", "event_time", "partition"))


def test_rows_that_are_no_records_keep_their_column_timestamp() -> None:
    rows = schema(id=LONG, timestamp=TimestampType())

    assert plan_rows(rows, Rows.AUTO) == RowPlan(Rows.ARROW, ("id", "timestamp"))
