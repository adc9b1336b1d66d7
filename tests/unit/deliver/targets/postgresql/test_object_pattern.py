"""A pattern finds the cells of objects like those that it knows, and of no others."""

from __future__ import annotations

from typing import Any

import pytest

from forebay.deliver.targets.postgresql.object_pattern import FIELDS_MAX, NAMES_MAX, Number, ObjectPattern, is_simple
from forebay.deliver.targets.postgresql.table import Table

TABLE = Table({"id": "bigint", "name": "text", "tags": "jsonb"})


def pattern(
    found: dict[str, Any], columns: tuple[str, ...] = ("id", "name", "tags"), table: Table = TABLE
) -> ObjectPattern:
    return ObjectPattern.of(table, columns, found)


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (b'{"id": 1, "name": "a b", "tags": true}', b"1\ta b\ttrue"),
        (b'{"id":-1.5e+3,"name":"","tags":"x"}', b'-1.5e+3\t\t"x"'),
        (b'{"id": null, "name": null, "tags": null}', b"\\N\t\\N\t\\N"),
        (b'{"id": 1, "name": 2, "tags": true}', None),
        (b'{"id": "1", "name": "a", "tags": true}', None),
        (b'{"id": 1, "name": "a", "tags": [1]}', None),
        (b'{"id": 1, "name": "a"}', None),
        (b'{"name": "a", "id": 1, "tags": true}', None),
        (b'{"id": 1, "name": "a", "tags": true} ', None),
    ],
)
def test_an_object_matches_whose_fields_have_the_kinds_of_the_first_one(value: bytes, line: bytes | None) -> None:
    assert pattern({"id": Number("1"), "name": "a", "tags": Number("1")}).line(value) == line


def test_cells_are_in_the_order_of_the_columns() -> None:
    found = pattern({"tags": "x", "name": "a", "more": "y", "id": Number("1")})

    assert found.line(b'{"tags": 5, "name": "b", "more": false, "id": 2}') == b"2\tb\t5"


def test_a_null_or_a_nested_value_leaves_the_kind_of_a_field_open() -> None:
    first = pattern({"id": None, "name": []}, ("id", "name"))
    assert first.line(b'{"id": null, "name": null}') is None

    known = first.extended({"id": Number("1"), "name": "a"})

    assert known.line(b'{"id": 2, "name": "b"}') == b"2\tb"
    assert known.extended({"id": None, "name": []}) is known
    assert known.extended({"id": "x", "name": Number("1")}) is known


@pytest.mark.parametrize("names", [[f"f{n}" for n in range(FIELDS_MAX + 1)], ["n" * (NAMES_MAX + 1)]])
def test_objects_with_more_fields_or_longer_names_than_a_pattern_may_have_are_not_matched(names: list[str]) -> None:
    assert pattern({"name": "a"}, ("name",)).is_useful
    assert not pattern({"name": "a"} | dict.fromkeys(names, "x"), ("name",)).is_useful


def test_a_field_that_was_always_null_matches_null_and_booleans() -> None:
    found = pattern({"name": None}, ("name",))

    assert [found.line(value) for value in (b'{"name": null}', b'{"name": true}', b'{"name": "a"}')] == [
        b"\\N",
        b"true",
        None,
    ]


def test_a_null_of_a_key_does_not_match() -> None:
    table = Table({"id": "bigint"}, ("id",))

    assert pattern({"id": Number("1")}, ("id",), table).line(b'{"id": null}') is None


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "a\ud800b"])
def test_no_object_matches_whose_field_has_a_name_with_several_forms(name: str) -> None:
    found = pattern({name: "x"}, (name,), Table({name: "text"}))

    assert found.line(b'{"%s": "x"}' % name.encode(errors="surrogatepass")) is None


@pytest.mark.parametrize(
    ("data", "simple"),
    [(b"", True), ("aé\x7f\u2028".encode(), True), (b"a\tb", False), (b"\\", False), (b"\0", False), (b"\xff", False)],
)
def test_text_without_escapes_and_control_characters_is_simple(data: bytes, simple: bool) -> None:
    assert is_simple(data) is simple
