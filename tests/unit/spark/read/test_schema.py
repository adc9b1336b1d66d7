"""The columns of a read are those that were asked for, in that order."""

from __future__ import annotations

import pytest

from forebay.spark.errors import ForebaySparkError
from forebay.spark.read.schema import RECORD, read_schema


def test_without_a_wish_a_row_is_a_record() -> None:
    assert read_schema(None, ()) == RECORD
    assert read_schema(None, ("false",)) == RECORD


def test_columns_come_in_the_order_in_which_they_were_asked_for() -> None:
    assert read_schema(("value", "offset"), ("_headers",)).fieldNames() == ["value", "offset", "_headers"]


def test_all_there_is_about_a_record_is_one_word() -> None:
    names = read_schema(("value",), ("true",)).fieldNames()

    assert names == ["value", "_sink", "_partition", "_offset", "_accepted_at", "_attempt", "_headers"]


def test_the_value_column_is_nullable_if_gaps_are_rows() -> None:
    assert not read_schema(("value",), ())["value"].nullable
    assert read_schema(("value",), ("_gap",))["value"].nullable


@pytest.mark.parametrize(("columns", "metadata"), [(("payload",), ()), (None, ("_ofset",)), (("key", "key"), ())])
def test_an_unknown_column_is_named_with_what_there_is(
    columns: tuple[str, ...] | None, metadata: tuple[str, ...]
) -> None:
    with pytest.raises(ForebaySparkError, match="names") as error:
        read_schema(columns, metadata)

    assert ("headers" if columns else "_offset") in error.value.remedy
