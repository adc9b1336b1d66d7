"""A row has the fields of a JSON object by column, whether it was decoded or not; an invalid one is reported."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.deliver.targets.postgresql import object_pattern
from forebay.deliver.targets.postgresql.json_rows import ROWS_AT_ONCE, json_rows
from forebay.deliver.targets.postgresql.rows import RowInvalid
from forebay.deliver.targets.postgresql.settings import UnknownFields
from forebay.deliver.targets.postgresql.table import Table
from tests.support.targets.copy_rows import TEXTS, batch, rows_of

TYPES = {"id": "bigint", "price": "numeric", "tags": "jsonb", "name": "text"}

Cells = list[tuple[tuple[str, ...], list[tuple[str | None, ...]]]]


def cells(*values: bytes, unknown: UnknownFields = UnknownFields.REJECT) -> Cells:
    return [(one.columns, rows_of(one)) for one in json_rows(batch(*values), Table(TYPES), unknown)]


def one_by_one(*values: bytes, unknown: UnknownFields = UnknownFields.REJECT) -> Cells:
    """Return the rows of objects that are decoded, because none comes before them."""
    return [found for value in values for found in cells(value, unknown=unknown)]


def named(found: Cells) -> list[dict[str, str | None]]:
    return [dict(zip(columns, row, strict=True)) for columns, rows in found for row in rows]


OF_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=5,
)


@given(st.lists(st.dictionaries(st.sampled_from(sorted(TYPES)), OF_JSON, min_size=1), min_size=1), st.booleans())
def test_every_field_of_an_object_is_kept(objects: list[dict[str, object]], is_ascii: bool) -> None:
    found = [
        dict(zip(columns, row, strict=True))
        for columns, rows in cells(*[json.dumps(one, ensure_ascii=is_ascii).encode() for one in objects])
        for row in rows
    ]

    assert len(found) == len(objects)
    for row, given_ in zip(found, objects, strict=True):
        assert set(row) == set(given_)
        for name, value in given_.items():
            cell = row[name]
            if value is None:
                assert cell is None
            elif isinstance(value, str) and name != "tags":
                assert cell == value
            else:
                assert cell is not None
                assert json.loads(cell) == value


def test_rows_with_the_same_fields_are_written_together_in_order() -> None:
    found = cells(b'{"id": 1, "name": "a"}', b'{"name": "b", "id": 2}', b'{"id": 3}', b'{"id": 4, "name": null}')

    assert found == [
        (("id", "name"), [("1", "a"), ("2", "b")]),
        (("id",), [("3",)]),
        (("id", "name"), [("4", None)]),
    ]


def test_numbers_keep_their_digits_and_structures_are_json() -> None:
    digits = "0.10000000000000000000001"
    [(columns, rows)] = cells(f'{{"price": {digits}, "tags": {{"a": [{digits}, 1e400, true]}}, "name": [1]}}'.encode())

    assert columns == ("price", "tags", "name")
    assert rows == [(digits, f'{{"a": [{digits}, 1e400, true]}}', "[1]")]


def test_many_rows_come_in_blocks_in_order() -> None:
    found = cells(*[b'{"id": %d}' % number for number in range(2 * ROWS_AT_ONCE + 1)])

    assert [len(rows) for _, rows in found] == [ROWS_AT_ONCE, ROWS_AT_ONCE, 1]
    assert [row for _, rows in found for row in rows] == [(str(number),) for number in range(2 * ROWS_AT_ONCE + 1)]


def test_white_space_around_an_object_is_no_part_of_it() -> None:
    assert cells(b' {"id": 1}', b'{"id": 2}\r\n', b'\t{"id": 3} ') == [(("id",), [("1",), ("2",), ("3",)])]


@pytest.mark.parametrize("depth", [100, 800, 5_000])
def test_a_value_that_is_nested_too_deeply_for_the_interpreter_is_invalid(depth: int) -> None:
    nested = "[" * depth + "]" * depth
    try:
        found = cells(f'{{"tags": {nested}}}'.encode())
    except RowInvalid as error:
        if depth == 100 or str(error) not in ("the value is nested too deeply", "the value is not JSON"):
            raise
    else:
        assert found == [(("tags",), [(nested,)])]


def test_a_boolean_is_no_number() -> None:
    assert cells(b'{"name": true, "tags": false}') == [(("tags", "name"), [("false", "true")])]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"{", "the value is not JSON"),
        (b'{"id": }', "the value is not JSON"),
        (b'{"id": 1}{"id": 2}', "the value is not JSON"),
        (b'{"name": "\\ud800"}', "the value has an unpaired surrogate"),
        (b"[" * 100_000, "the value is not JSON"),
        (b"\xff", "the value is not JSON"),
        (b'{"id": NaN}', "the value is not JSON"),
        (b"[1]", "the value is no JSON object"),
        (b"{}", "no field has a column"),
        (b'{"id": 1, "zz": 2, "aa": 3}', "no column for 2 of the fields, such as 'aa'"),
    ],
)
def test_a_value_that_is_no_row_is_invalid_with_the_reason(value: bytes, message: str) -> None:
    with pytest.raises(RowInvalid) as error:
        cells(value)

    assert str(error.value) == message


@pytest.mark.parametrize(
    ("last", "message"),
    [
        (b'{"id": 3}', "the field 'name' of the key is missing"),
        (b'{"name": null, "id": 3}', "the field 'name' of the key is null"),
        (b'{"name": "c", "id": null}', "the field 'id' of the key is null"),
    ],
)
def test_a_row_needs_all_fields_of_a_key(last: bytes, message: str) -> None:
    table = Table(TYPES, ("name", "id"))
    values = [b'{"id": 1, "name": "a", "price": null}', b'{"id": 2, "name": "b", "price": 1}']
    assert len(list(json_rows(batch(*values), table, UnknownFields.REJECT))) == 1

    with pytest.raises(RowInvalid) as error:
        list(json_rows(batch(*values, last), table, UnknownFields.REJECT))

    assert str(error.value) == message


def test_a_null_is_part_of_a_key_whose_nulls_are_equal() -> None:
    table = Table(TYPES, ("name",), nulls_equal=True)

    [found] = json_rows(batch(b'{"name": null}'), table, UnknownFields.REJECT)

    assert rows_of(found) == [(None,)]


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.sampled_from('aé\x7f"\\\t\0N'), max_size=4)
)
FORMS = st.lists(st.sampled_from([*TYPES, "more"]), min_size=1, unique=True)
SEPARATORS = st.sampled_from([(",", ":"), (", ", ": "), (" ,", " :"), (",\n", ":")])


@st.composite
def similar_objects(draw: st.DrawFn) -> list[bytes]:
    """Draw JSON objects, of which many have the same fields, and some a byte that is not theirs."""
    forms = draw(st.lists(FORMS, min_size=1, max_size=2))
    found = []
    for _ in range(draw(st.integers(1, 8))):
        one = {name: draw(SCALARS) for name in draw(st.sampled_from(forms))}
        text = json.dumps(one, ensure_ascii=draw(st.booleans()), separators=draw(SEPARATORS)).encode()
        if draw(st.integers(0, 9)) == 0:
            place = draw(st.integers(0, len(text)))
            text = (
                text[:place] + draw(st.sampled_from([b"", b"\t", b'"', b"\\", b"0", b"\xff", b"}"])) + text[place + 1 :]
            )
        found.append(text)
    return found


@given(similar_objects(), st.sampled_from(UnknownFields))
def test_an_object_that_is_not_decoded_has_the_row_that_it_has_decoded(
    values: list[bytes], unknown: UnknownFields
) -> None:
    try:
        expected = named(one_by_one(*values, unknown=unknown))
    except RowInvalid:
        with pytest.raises(RowInvalid):
            cells(*values, unknown=unknown)
    else:
        assert named(cells(*values, unknown=unknown)) == expected


def test_a_field_is_found_whatever_the_first_objects_have_there() -> None:
    values = [b'{"id": null, "name": %s}' % one for one in (b"[1]", b"null", b'"a"', b"1", b"true", b'"b"')]

    assert cells(*values) == [
        (("id", "name"), [(None, "[1]"), (None, None), (None, "a"), (None, "1"), (None, "true"), (None, "b")])
    ]


def test_fields_without_a_column_are_left_out_wherever_they_are() -> None:
    values = [b'{"a": 1, "name": "%d", "b": "x", "id": %d, "c": null}' % (n, n) for n in range(3)]

    assert cells(*values, unknown=UnknownFields.IGNORE) == [(("id", "name"), [(str(n), str(n)) for n in range(3)])]


@pytest.mark.parametrize(
    "value",
    [
        b'{"id": 01}',
        b'{"id": 1.}',
        b'{"id": .5}',
        b'{"id": +1}',
        b'{"id": 1e}',
        b'{"id": 0x1}',
        b'{"id": 1}}',
        b'{"id": 1}{"id": 2}',
        b'{"id": 1,}',
        b'{"id": "\xff"}',
        b'{"id": "a\tb"}',
        b'{"id": "a\nb"}',
        b'{"id": nul}',
        b"{id: 1}",
    ],
)
def test_a_value_that_is_no_json_is_invalid_after_valid_objects_too(value: bytes) -> None:
    valid = [b'{"id": 1}', b'{"id": 2}', b'{"id": 3}']
    assert len(named(cells(*valid))) == 3

    with pytest.raises(RowInvalid, match="not JSON"):
        cells(*valid, value)


@pytest.mark.parametrize(
    ("number", "cell"),
    [("-0", "0"), ("-0.0", "-0.0"), ("0", "0"), ("-7", "-7"), ("1e5", "1e5"), ("9" * 4_001, "9" * 4_001)],
)
def test_a_number_has_the_same_digits_in_the_first_row_and_in_later_ones(number: str, cell: str) -> None:
    value = f'{{"price": {number}}}'.encode()

    assert named(cells(*[value] * 4)) == [{"price": cell}] * 4


def test_an_integer_of_more_digits_than_the_interpreter_takes_is_invalid_in_later_rows_too() -> None:
    for before in ([], [b'{"price": 1}'] * 3):
        with pytest.raises(RowInvalid, match="not JSON"):
            cells(*before, b'{"price": %s}' % (b"9" * 5_000))


def test_objects_whose_fields_change_from_one_to_the_next_are_converted_without_a_pattern(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(object_pattern, "re")
    values = [b'{"id": %d}' % n if n % 2 else b'{"id": %d, "name": "a"}' % n for n in range(6)]

    assert [row.get("id") for row in named(cells(*values))] == [str(n) for n in range(6)]


def test_a_field_that_an_object_has_twice_has_its_last_value() -> None:
    assert named(cells(b'{"id": 1}', b'{"id": 2}', b'{"id": 3, "id": 4}')) == [{"id": "1"}, {"id": "2"}, {"id": "4"}]


def test_names_with_quotes_and_escapes_are_found() -> None:
    types = {'a"b': "text", "a\\b": "text", "a\tb": "text", "ä.*": "text"}
    values = [json.dumps(dict.fromkeys(types, n), ensure_ascii=n % 2 == 0).encode() for n in range(4)]
    [found] = json_rows(batch(*values), Table(types), UnknownFields.REJECT)

    assert found.columns == tuple(types)
    assert rows_of(found) == [(str(n),) * len(types) for n in range(4)]
