"""A table says which fields of an object have a column, and what a column takes."""

from __future__ import annotations

import pytest

from forebay.deliver.targets.postgresql.rows import FieldUnknown, RowInvalid
from forebay.deliver.targets.postgresql.settings import UnknownFields
from forebay.deliver.targets.postgresql.table import Table

TYPES = {"id": "bigint", "tags": "jsonb", "raw": "json", "name": "text"}


def test_fields_are_in_the_order_of_the_table() -> None:
    assert Table(TYPES).columns_of(("name", "id"), UnknownFields.REJECT) == ("id", "name")


def test_a_field_without_a_column_is_unknown_unless_it_is_ignored() -> None:
    with pytest.raises(FieldUnknown, match="no column for 1 of the fields, such as 'more'"):
        Table(TYPES).columns_of(("id", "more"), UnknownFields.REJECT)

    assert Table(TYPES).columns_of(("id", "more"), UnknownFields.IGNORE) == ("id",)


def test_an_object_without_any_column_or_without_its_key_has_no_row() -> None:
    with pytest.raises(RowInvalid, match="no field has a column"):
        Table(TYPES).columns_of(("more",), UnknownFields.IGNORE)

    with pytest.raises(RowInvalid, match="the field 'id' of the key is missing"):
        Table(TYPES, ("id",)).columns_of(("name",), UnknownFields.REJECT)


def test_columns_of_both_types_of_json_take_json() -> None:
    assert [name for name in TYPES if Table(TYPES).takes_json(name)] == ["tags", "raw"]


def test_a_column_of_a_key_takes_null_where_nulls_are_equal_only() -> None:
    assert [name for name in TYPES if not Table(TYPES, ("id", "name")).takes_null(name)] == ["id", "name"]
    assert all(Table(TYPES, ("id",), nulls_equal=True).takes_null(name) for name in TYPES)


def test_columns_of_bytes_are_known() -> None:
    assert Table({**TYPES, "photo": "bytea"}).binary == {"photo"}
