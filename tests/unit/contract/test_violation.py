"""Comparisons of checks: the violation names what was found and what must be."""

from __future__ import annotations

import pytest

from forebay.contract.violation import Violation, equal, exactly, that


def test_equal_values_pass() -> None:
    equal([1], [1], "a list")
    that(True, "not raised")
    assert exactly(2, ("a", "b"), "letters") == ["a", "b"]


def test_a_violation_names_both_values() -> None:
    with pytest.raises(Violation, match=r"^the offset is 4, must be 3$"):
        equal(4, 3, "the offset")
    with pytest.raises(Violation, match=r"^the number of letters: 1, must be 2$"):
        exactly(2, ["a"], "the number of letters")
    with pytest.raises(Violation, match=r"^nothing there$"):
        that([], "nothing there")
