"""Schemas are merged with one result in any grouping, and every accepted row is read with equal values."""

from __future__ import annotations

import random
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
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
    StringType,
    StructField,
    StructType,
)

from forebay.spark.errors import ForebaySparkError
from forebay.spark.schema.column_names import matches
from forebay.spark.schema.row_schema import MergeRules, merged_schema
from forebay.spark.write.projection import Projection

FEW: Final = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
WIDENING: Final = MergeRules(type_widening=True)
DIGITS_MAX: Final = 18
"""The decimal that holds two of these has at most 36 digits."""


def simple(*kinds: DataType) -> st.SearchStrategy[DataType]:
    return st.sampled_from([*kinds, NullType()])


def schemas_of(families: dict[str, st.SearchStrategy[DataType]]) -> st.SearchStrategy[StructType]:
    """Return schemas whose columns have types that go together: those of one name, in any case, are of one family."""
    every_case = [form for name in families for form in (name, name.upper())]
    names = st.lists(st.sampled_from(every_case), min_size=1, max_size=4, unique_by=str.lower)
    return names.flatmap(
        lambda chosen: st.tuples(
            *[st.builds(field, st.just(one), families[one.lower()], st.booleans()) for one in chosen]
        )
    ).map(lambda fields: StructType(list(fields)))


def field(name: str, kind: DataType, may_be_null: bool) -> StructField:
    return StructField(name, kind, may_be_null or kind == NullType())


def array(kind: DataType, may_be_null: bool) -> DataType:
    return ArrayType(kind, may_be_null or kind == NullType())


def map_of(key: DataType, kind: DataType, may_be_null: bool) -> DataType:
    return MapType(key, kind, may_be_null or kind == NullType())


INTEGERS: Final = simple(ByteType(), ShortType(), IntegerType(), LongType())
FLAT: Final = {
    "i": INTEGERS,
    "f": simple(FloatType(), DoubleType()),
    "d": st.integers(1, DIGITS_MAX).flatmap(
        lambda digits: st.builds(DecimalType, st.just(digits), st.integers(0, digits))
    ),
    "t": simple(StringType()),
}
NESTED: Final = {
    **FLAT,
    "s": schemas_of(FLAT) | simple(),
    "l": st.builds(array, schemas_of(FLAT) | simple(), st.booleans()),
    "m": st.builds(map_of, st.sampled_from([IntegerType(), LongType()]), INTEGERS, st.booleans()),
}
SCHEMAS: Final = schemas_of(NESTED)


def merged(*schemas: StructType) -> StructType:
    known = schemas[0]
    for rows in schemas[1:]:
        known = merged_schema(known, rows, sink="orders", version=1, rules=WIDENING)
    return known


def value(kind: DataType, dice: random.Random, *, may_be_null: bool) -> Any:
    """Return a random value of a type, as pyarrow takes it."""
    if isinstance(kind, NullType) or (may_be_null and dice.random() < 0.2):
        return None
    if isinstance(kind, StructType):
        return {one.name: value(one.dataType, dice, may_be_null=one.nullable) for one in kind.fields}
    if isinstance(kind, ArrayType):
        return [value(kind.elementType, dice, may_be_null=kind.containsNull) for _ in range(dice.randrange(3))]
    if isinstance(kind, MapType):
        keys = [value(kind.keyType, dice, may_be_null=False) for _ in range(dice.randrange(3))]
        return [(key, value(kind.valueType, dice, may_be_null=kind.valueContainsNull)) for key in dict.fromkeys(keys)]
    if isinstance(kind, DecimalType):
        return pa.scalar(dice.randrange(10**kind.precision)).cast(pa.decimal128(38, 0)).as_py().scaleb(-kind.scale)
    if isinstance(kind, StringType):
        return dice.choice(["", "text", "\u00e9"])
    if isinstance(kind, FloatType | DoubleType):
        return dice.choice([0.0, -1.5, 2.0**20])
    return dice.randrange(-128, 128)


def seen(found: Any, kind: DataType, wanted: DataType) -> Any:
    """Return what a value of a type is in a wider one: missing fields are null."""
    if found is None:
        return None
    if isinstance(kind, StructType) and isinstance(wanted, StructType):
        names = matches(wanted.fieldNames(), kind.fieldNames())
        return {
            one.name: seen(found[names[one.name]], kind[names[one.name]].dataType, one.dataType)
            if one.name in names
            else None
            for one in wanted.fields
        }
    if isinstance(kind, ArrayType) and isinstance(wanted, ArrayType):
        return [seen(one, kind.elementType, wanted.elementType) for one in found]
    if isinstance(kind, MapType) and isinstance(wanted, MapType):
        return [(key, seen(one, kind.valueType, wanted.valueType)) for key, one in found]
    return found


@FEW
@given(SCHEMAS, SCHEMAS, SCHEMAS)
def test_a_merge_has_one_result_however_it_is_grouped(one: StructType, two: StructType, three: StructType) -> None:
    assert merged(merged(one, two), three) == merged(one, merged(two, three))


@FEW
@given(SCHEMAS, SCHEMAS)
def test_a_merged_schema_takes_both_again_and_does_not_change(one: StructType, two: StructType) -> None:
    both = merged(one, two)

    assert merged(both, one) == merged(both, two) == both


@FEW
@given(st.lists(SCHEMAS, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_every_row_that_was_accepted_is_read_with_equal_values(schemas: list[StructType], dice: random.Random) -> None:
    versions = [merged(*schemas[: count + 1], schemas[0]) for count in range(len(schemas))]
    latest = Projection(to_arrow_schema(versions[-1], timezone="UTC"))

    for rows, version in zip(schemas, versions, strict=True):
        given_rows = [value(rows, dice, may_be_null=False) for _ in range(3)]
        frame = pa.RecordBatch.from_pylist(given_rows, schema=to_arrow_schema(rows, timezone="UTC"))
        page = Projection(to_arrow_schema(version, timezone="UTC"), drop_others=False).batch(frame)
        back = latest.batch(page)

        back.validate(full=True)
        assert back.to_pylist() == [seen(row, rows, versions[-1]) for row in frame.to_pylist()]


def test_a_narrower_type_never_replaces_a_wider_one() -> None:
    wide, narrow = (StructType([StructField("a", kind)]) for kind in (LongType(), ByteType()))

    assert merged(wide, narrow) == wide
    with pytest.raises(ForebaySparkError):
        merged_schema(narrow, wide, sink="orders", version=1)
