"""Rows with a schema have the cells that their JSON objects have."""

from __future__ import annotations

import json
from datetime import UTC, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.deliver.targets.postgresql.json_rows import json_rows
from forebay.deliver.targets.postgresql.rows import FieldUnknown, RowInvalid, Rows
from forebay.deliver.targets.postgresql.schema_rows import schema_rows
from forebay.deliver.targets.postgresql.settings import UnknownFields
from forebay.deliver.targets.postgresql.table import Table
from tests.support.targets.copy_rows import TEXTS, rows_of
from tests.support.targets.rows_batch import rows_batch, stored_page

INT64: Final = st.integers(-(2**63), 2**63 - 1)
KINDS: Final[dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]]] = {
    "flag": (pa.bool_(), st.booleans()),
    "number": (pa.int64(), INT64),
    "ratio": (pa.float64(), st.floats()),
    "price": (pa.decimal128(38, 2), st.decimals(-(10**20), 10**20, places=2)),
    "tiny": (pa.decimal128(3, 100), st.integers(-999, 999).map(lambda number: Decimal(f"{number}E-100"))),
    "name": (pa.string(), TEXTS),
    "coded": (pa.dictionary(pa.int32(), pa.string()), TEXTS),
    "photo": (pa.binary(), st.binary(max_size=9)),
    "base64": (pa.binary(), st.binary(max_size=9)),
    "day": (pa.date32(), st.dates()),
    "at": (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(UTC))),
    "noted": (pa.timestamp("us"), st.datetimes()),
    "clock": (pa.time64("us"), st.times()),
    "took": (pa.duration("us"), st.timedeltas(timedelta(days=-999), timedelta(days=999))),
    "nothing": (pa.null(), st.none()),
    "tag": (pa.string(), TEXTS),
    "list": (pa.list_(pa.binary()), st.lists(st.none() | st.binary(max_size=3), max_size=3)),
    "pair": (pa.struct({"a": pa.float64(), "b": pa.string()}), st.fixed_dictionaries({"a": st.floats(), "b": TEXTS})),
    "map": (pa.map_(pa.string(), pa.string()), st.lists(st.tuples(TEXTS, st.none() | TEXTS), max_size=3)),
}
JSON: Final = ("tag", "list", "pair", "map")
"""Fields whose columns take JSON."""
TABLE: Final = Table(
    {
        **dict.fromkeys(reversed(KINDS), "text"),
        **dict.fromkeys(JSON, "jsonb"),
        "photo": "bytea",
    }
)


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    names = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, unique=True))
    count = draw(st.integers(1, 5))
    columns = {}
    for name in names:
        kind, values = KINDS[name]
        one = draw(st.lists(st.none() | values, min_size=count, max_size=count))
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        array = pa.array(one, plain)
        columns[name] = array.dictionary_encode() if plain is not kind else array
    return pa.record_batch(columns)


def cells(found: list[Rows]) -> list[dict[str, object]]:
    """Return all rows; JSON without its spaces."""
    return [
        {
            name: json.loads(cell) if name in JSON and cell is not None else cell
            for name, cell in zip(one.columns, row, strict=True)
        }
        for one in found
        for row in rows_of(one)
    ]


def plain(value: object) -> object:
    """Return JSON in which NaN equals itself."""
    return json.dumps(value)


@given(batches())
def test_a_cell_has_the_text_that_it_has_as_a_field_of_an_object(rows: pa.RecordBatch) -> None:
    page = stored_page(rows)
    found = schema_rows(page, TABLE, UnknownFields.REJECT)

    assert found is not None
    by_object = list(json_rows(rows_batch(page), TABLE, UnknownFields.REJECT))
    assert plain(cells([found])) == plain(cells(by_object))
    assert {found.columns} == {one.columns for one in by_object}


def test_bytes_whose_base64_is_the_word_null_are_bytes() -> None:
    page = stored_page(pa.record_batch({"photo": pa.array([b"\x9e\xe9e", None], pa.binary())}))
    found = schema_rows(page, TABLE, UnknownFields.REJECT)

    assert found is not None
    assert rows_of(found) == [("\\x9ee965",), (None,)]


NUMBERS: Final = pa.record_batch({"number": [1, 2, None], "name": ["a", "b", "c"]})


def test_a_row_without_its_key_or_with_a_field_without_a_column_is_refused_as_an_object_is() -> None:
    page = stored_page(NUMBERS)

    with pytest.raises(RowInvalid, match="the field 'number' of the key is null"):
        schema_rows(page, Table(TABLE.types, ("number",)), UnknownFields.REJECT)
    with pytest.raises(FieldUnknown, match="no column for 1 of the fields, such as 'name'"):
        schema_rows(page, Table({"number": "bigint"}), UnknownFields.REJECT)
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array(["a", None]))
    with pytest.raises(RowInvalid, match="the field 'coded' of the key is null"):
        schema_rows(
            stored_page(pa.record_batch({"coded": coded})), Table(TABLE.types, ("coded",)), UnknownFields.REJECT
        )
    found = schema_rows(page, Table({"number": "bigint"}), UnknownFields.IGNORE)
    assert found is not None
    assert rows_of(found) == [("1",), ("2",), (None,)]


def test_rows_are_converted_one_by_one_where_a_column_would_have_another_text() -> None:
    nested = stored_page(pa.record_batch({"list": pa.array([[1, 2]])}))
    same_name = stored_page(pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["number", "number"]))

    assert schema_rows(nested, Table({"list": "text"}), UnknownFields.REJECT) is None
    assert schema_rows(same_name, TABLE, UnknownFields.REJECT) is None
    coded = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), pa.array([["a\n"]]))
    page = stored_page(pa.record_batch({"list": coded}))
    assert schema_rows(page, Table({"list": "text"}), UnknownFields.REJECT) is None
