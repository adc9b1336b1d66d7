"""Two versions of a schema are compared field by field."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from forebay.broker.console.pages.schemas import FIELDS_MAX, FieldPair, fields_of, paired
from forebay.v1 import schema_service_pb2 as pb


def test_fields_of_an_arrow_schema_have_their_types() -> None:
    schema = pa.schema([("id", pa.int64()), ("tags", pa.list_(pa.string()))])

    assert fields_of(pb.Schema(arrow_schema=schema.serialize().to_pybytes())) == {
        "id": "int64",
        "tags": "list<item: string>",
    }


def test_nested_fields_of_spark_are_named_by_their_path() -> None:
    inner = {"type": "struct", "fields": [{"name": "city", "type": "string", "nullable": True, "metadata": {}}]}
    places = {"type": "array", "elementType": inner, "containsNull": True}
    names = {"type": "array", "elementType": "string", "containsNull": True}
    by_name = {"type": "map", "keyType": "string", "valueType": "double", "valueContainsNull": True}
    fields = [("id", "long"), ("home", inner), ("places", places), ("names", names), ("by_name", by_name)]
    spark = {"type": "struct", "fields": [{"name": name, "type": of, "nullable": True} for name, of in fields]}

    assert fields_of(pb.Schema(spark_schema=json.dumps(spark))) == {
        "id": "long",
        "home": "struct",
        "home.city": "string",
        "places": "array",
        "places.city": "string",
        "names": "array",
        "names.element": "string",
        "by_name": "map",
        "by_name.element": "double",
    }


@pytest.mark.parametrize(
    "schema",
    [
        pb.Schema(arrow_schema=b"one"),
        pb.Schema(spark_schema="{}"),
        pb.Schema(spark_schema="[1]"),
        pb.Schema(spark_schema="{"),
        pb.Schema(spark_schema='{"fields": [{"name": 1, "type": {"type": 2}}, {"name": "a", "type": {}}]}'),
        pb.Schema(spark_schema="[" * 200_000),
    ],
)
def test_content_that_is_no_schema_is_said_to_be_unreadable(schema: pb.Schema) -> None:
    [(name, error)] = fields_of(schema).items()

    assert name == ""
    assert error.startswith("cannot be read: ")


def test_a_schema_with_very_many_fields_is_shown_in_part() -> None:
    schema = pa.schema([(f"c{n}", pa.int8()) for n in range(3 * FIELDS_MAX)])

    assert len(fields_of(pb.Schema(arrow_schema=schema.serialize().to_pybytes()))) == FIELDS_MAX


def test_a_comparison_says_what_was_added_removed_and_changed() -> None:
    found = list(paired({"a": "int", "b": "int", "c": "int"}, {"a": "int", "c": "bigint", "d": "string"}))

    assert [(one.name, one.change) for one in found] == [("a", ""), ("c", "changed"), ("d", "added"), ("b", "removed")]
    assert found[1] == FieldPair("c", "int", "bigint")
