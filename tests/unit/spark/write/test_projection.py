"""Batches take the columns, nested fields and types of a schema, and nothing is lost in silence."""

from __future__ import annotations

import pickle
from decimal import Decimal

import pyarrow as pa
import pytest

from forebay.spark.write.projection import Projection, SchemaMismatch, may_be_null, nulls_in

STRUCT = pa.array([{"x": 1}, None, {"x": 3}], pa.struct([pa.field("x", pa.int32(), nullable=False)]))
WIDER = pa.struct([("y", pa.string()), ("x", pa.int64())])
LIST = pa.array([[{"x": 1}, None], None, [], [{"x": 3}]], pa.list_(STRUCT.type))
MAP = pa.array([[("k", {"x": 1})], None, [], [("l", None)]], pa.map_(pa.string(), STRUCT.type))


def fitted(array: pa.Array, kind: pa.DataType) -> pa.Array:
    batch = Projection(pa.schema([("c", kind)])).batch(pa.record_batch([array], names=["c"]))
    batch.validate(full=True)
    assert batch.schema.field("c").type.equals(kind)
    return batch.column("c")


def test_rows_take_the_order_zones_and_types_of_the_schema() -> None:
    wanted = pa.schema([("ts", pa.timestamp("us", "UTC")), ("missing", pa.list_(pa.int32())), ("void", pa.int64())])
    rows = pa.record_batch({"void": pa.nulls(2), "TS": pa.array([1, None], pa.timestamp("us", "America/New_York"))})

    found = pickle.loads(pickle.dumps(Projection(wanted))).batch(rows)

    assert found.schema.equals(wanted)
    assert found.column("ts").cast(pa.int64()).to_pylist() == [1, None]
    assert found.column("missing").to_pylist() == found.column("void").to_pylist() == [None, None]


@pytest.mark.parametrize("start", [0, 1, 2])
def test_nested_fields_are_found_by_name_and_filled_with_null(start: int) -> None:
    assert (
        fitted(STRUCT.slice(start), WIDER).to_pylist()
        == [
            {"y": None, "x": 1},
            None,
            {"y": None, "x": 3},
        ][start:]
    )
    assert (
        fitted(LIST.slice(start), pa.list_(WIDER)).to_pylist()
        == [
            [{"y": None, "x": 1}, None],
            None,
            [],
            [{"y": None, "x": 3}],
        ][start:]
    )
    assert (
        fitted(MAP.slice(start), pa.map_(pa.string(), WIDER)).to_pylist()
        == [
            [("k", {"y": None, "x": 1})],
            None,
            [],
            [("l", None)],
        ][start:]
    )


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (pa.array([1, None], pa.int8()), pa.int64()),
        (pa.array([1.5, None], pa.float32()), pa.float64()),
        (pa.array([Decimal("1.5"), None], pa.decimal128(3, 1)), pa.decimal128(5, 2)),
        (pa.array(["a", None], pa.large_string()), pa.string()),
        (pa.array([["a"], None], pa.large_list(pa.large_string())), pa.list_(pa.string())),
        (pa.array(["a", None]).dictionary_encode(), pa.string()),
    ],
    ids=str,
)
def test_values_become_wider_and_stay_equal(given: pa.Array, wanted: pa.DataType) -> None:
    assert fitted(given, wanted).to_pylist() == given.to_pylist()


@pytest.mark.parametrize(
    ("given", "wanted", "problem"),
    [
        (pa.array([1], pa.int64()), pa.int32(), "column c is int64, and not int32"),
        (pa.array(["1"]), pa.int32(), "column c is string, and not int32"),
        (pa.array([1]), pa.date32(), "column c is int64, and not date32"),
        (pa.array([[1]]), pa.list_(pa.int32()), r"column c\[\] is int64, and not int32"),
        (pa.array([{"a": 1}]), pa.struct([("a", pa.int32())]), r"column c\.a is int64"),
        (pa.array([1], pa.timestamp("us")), pa.timestamp("us", "UTC"), "column c is timestamp"),
    ],
    ids=str,
)
def test_no_value_is_changed_to_fit(given: pa.Array, wanted: pa.DataType, problem: str) -> None:
    with pytest.raises(SchemaMismatch, match=problem):
        fitted(given, wanted)


def test_columns_missing_from_the_schema_are_left_out_or_refused_as_requested() -> None:
    rows = pa.record_batch({"a": pa.array([1]), "s": pa.array([{"x": 1, "new": 2}])})
    wanted = pa.schema([("a", pa.int64()), ("s", pa.struct([("x", pa.int64())]))])

    assert Projection(wanted).batch(rows).to_pylist() == [{"a": 1, "s": {"x": 1}}]
    with pytest.raises(SchemaMismatch, match=r"column s\.new is new"):
        Projection(wanted, drop_others=False).batch(rows)
    with pytest.raises(SchemaMismatch, match="column s is new"):
        Projection(pa.schema([("a", pa.int64())]), drop_others=False).batch(rows)


NEVER = pa.field("x", pa.int32(), nullable=False)


@pytest.mark.parametrize(
    ("array", "field", "path"),
    [
        (pa.array([1, None], pa.int32()), NEVER, "x"),
        (STRUCT, pa.field("c", STRUCT.type), None),
        (STRUCT, pa.field("c", STRUCT.type, nullable=False), "c"),
        (pa.array([{"x": None}], pa.struct([("x", pa.int32())])), pa.field("c", STRUCT.type), "c.x"),
        (pa.array([[1, None]], pa.list_(pa.int32())), pa.field("c", pa.list_(NEVER)), "c[]"),
        (
            pa.array([[("k", None)]], pa.map_(pa.string(), pa.int32())),
            pa.field("c", pa.map_(pa.string(), NEVER)),
            "c (values)",
        ),
    ],
    ids=str,
)
def test_a_null_is_found_where_the_schema_says_that_there_is_none(
    array: pa.Array, field: pa.Field, path: str | None
) -> None:
    assert nulls_in(array, field) == path
    assert not may_be_null(field)


def test_a_null_is_looked_for_only_in_the_rows_that_are_read() -> None:
    field = pa.field("c", pa.map_(pa.string(), NEVER))
    maps = pa.array([[("k", 1)], [("k", None)], None, [("k", 2)]], pa.map_(pa.string(), pa.int32()))

    assert nulls_in(maps, field) == "c (values)"
    assert nulls_in(maps[:1], field) is None
    assert nulls_in(maps[2:], field) is None
    assert nulls_in(maps[2:3], field) is None
    assert nulls_in(maps[1:3], field) == "c (values)"


def test_a_map_may_be_null_throughout_but_for_its_keys() -> None:
    assert may_be_null(pa.field("m", pa.map_(pa.string(), pa.struct([("a", pa.int32())]))))
