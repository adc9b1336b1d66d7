"""Names match as Spark matches them: equal ones first, then those that differ by their case alone."""

from __future__ import annotations

import pytest

from forebay.spark.schema.column_names import matches, repeated


@pytest.mark.parametrize(
    ("wanted", "given", "found"),
    [
        (["a", "b"], ["b", "a", "c"], {"a": "a", "b": "b"}),
        (["a", "b"], ["A"], {"a": "A"}),
        (["S", "s"], ["s"], {"s": "s"}),
        (["s"], ["S", "s"], {"s": "s"}),
        (["a"], ["A", "\u00e4"], {"a": "A"}),
        (["x"], ["X", "x "], {"x": "X"}),
        (["ab"], ["AB", "Ab"], {}),
        (["AB", "Ab"], ["ab"], {}),
    ],
)
def test_each_name_is_matched_once(wanted: list[str], given: list[str], found: dict[str, str]) -> None:
    assert matches(wanted, given) == found


def test_only_equal_names_match_if_case_counts() -> None:
    assert matches(["a", "b"], ["A", "b"], case_sensitive=True) == {"b": "b"}


def test_a_name_that_occurs_again_is_found() -> None:
    assert repeated(["a", "b", "B"], case_sensitive=False) == "B"
    assert repeated(["a", "b", "B"], case_sensitive=True) is None
    assert repeated(["a", "a"], case_sensitive=True) == "a"
