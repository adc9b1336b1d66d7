"""A value is shown as JSON, as text, or byte by byte."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.broker.console.values import CELL_MAX, COLUMNS_MAX, INDENTED_MAX, row_table, value_text
from forebay.v1 import buffer_service_pb2 as pb


def test_json_is_indented_and_text_is_as_it_is() -> None:
    record = pb.PeekedRecord(value='{"city":"Zürich","n":1}', format="json")

    assert value_text(record, "json") == '{\n  "city": "Zürich",\n  "n": 1\n}'
    assert value_text(record, "text") == '{"city":"Zürich","n":1}'


def test_cut_json_stays_text_with_an_ellipsis() -> None:
    assert value_text(pb.PeekedRecord(value='{"a":', format="json", truncated=True), "json") == '{"a":…'


def test_hexadecimal_digits_are_those_of_the_stored_bytes() -> None:
    text = pb.PeekedRecord(value="aé\n", format="text")
    stored = bytes(range(250, 256)) + b"0123456789ab"
    binary = pb.PeekedRecord(value=base64.b64encode(stored).decode(), format="base64")

    assert value_text(text, "hex") == "000000  61 c3 a9 0a" + " " * 36 + "  a..."
    assert value_text(binary, "hex").splitlines() == [
        "000000  fa fb fc fd fe ff 30 31 32 33 34 35 36 37 38 39  ......0123456789",
        "000010  61 62" + " " * 42 + "  ab",
    ]


def test_a_base64_value_that_was_cut_anywhere_is_shown_as_far_as_it_is_whole() -> None:
    cut = base64.b64encode(b"\xff" * 30).decode()[:38]

    assert value_text(pb.PeekedRecord(value=cut, format="base64", truncated=True), "hex").endswith("…")


def objects(*values: str) -> list[pb.PeekedRecord]:
    return [pb.PeekedRecord(offset=at, value=value, format="json") for at, value in enumerate(values)]


def test_fields_of_objects_are_columns_in_the_order_of_their_first_record() -> None:
    table = row_table(objects('{"id":1,"name":"a"}', '{"price":{"eur":2.5},"id":null}'))

    assert table.columns == ("id", "name", "price")
    assert [cells for _, cells in table.rows] == [("1", "a", ""), ("null", "", '{"eur": 2.5}')]
    assert table.fields_omitted == 0


def test_a_value_that_is_no_complete_json_object_makes_no_row() -> None:
    cut = pb.PeekedRecord(value='{"id":', format="json", truncated=True)
    table = row_table([*objects("[1]", '{"id":1}'), cut, pb.PeekedRecord(value="/w==", format="base64")])

    assert [cells for _, cells in table.rows] == [None, ("1",), None, None]


def test_columns_and_cells_have_bounds() -> None:
    wide = json.dumps({f"f{number}": "x" * (CELL_MAX + 1) for number in range(COLUMNS_MAX + 3)})

    table = row_table(objects(wide))

    assert (len(table.columns), table.fields_omitted) == (COLUMNS_MAX, 3)
    assert table.rows[0][1] == ("x" * CELL_MAX + "…",) * COLUMNS_MAX


def test_line_ends_of_a_value_are_escaped_and_those_of_its_form_are_not() -> None:
    record = pb.PeekedRecord(value='{"city":"Z\u202e"}', format="json")

    assert value_text(record, "json") == '{\n  "city": "Z\\u202e"\n}'
    assert value_text(pb.PeekedRecord(value="a\nb", format="text"), "text") == "a\\nb"


@pytest.mark.parametrize("depth", [200, 900, 960, 2_048])
def test_json_whose_nesting_is_deep_is_shown_as_it_is_stored(depth: int) -> None:
    value = "[" * depth + "]" * depth

    assert value_text(pb.PeekedRecord(value=value, format="json"), "json") == value


def test_indented_json_has_a_bound() -> None:
    value = json.dumps([[[[1] * 300] * 1] * 1] * 4, separators=(",", ":"))

    found = value_text(pb.PeekedRecord(value=value, format="json"), "json")

    assert json.loads(found) == json.loads(value)
    assert len(value) < len(found) <= INDENTED_MAX


def test_numbers_keep_the_digits_that_they_have_in_the_record() -> None:
    value = '{"price":1.50,"total":12345678901234567890.123456789,"tiny":1.23E-998,"in":{"a":[1.0,2,{}]}}'
    record = pb.PeekedRecord(value=value, format="json")

    [(_, cells)] = row_table([record]).rows

    assert cells == ("1.50", "12345678901234567890.123456789", "1.23E-998", '{"a": [1.0, 2, {}]}')
    assert '"price": 1.50,\n  "total": 12345678901234567890.123456789,' in value_text(record, "json")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "a", "ü"]),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    )
)
def test_json_has_the_layout_of_python(value: object) -> None:
    record = pb.PeekedRecord(value=json.dumps({"field": [value]}), format="json")

    [(_, cells)] = row_table([record]).rows

    assert value_text(record, "json") == json.dumps({"field": [value]}, indent=2, ensure_ascii=False)
    assert cells is not None
    assert cells[0][:CELL_MAX] == json.dumps([value], ensure_ascii=False)[:CELL_MAX]
