"""A part receives what it uses, never its owner: no object hands itself to one that it makes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2] / "broker" / "forebay" / "broker"
ALLOWED: Final = {("runtime/resources/stream_memory.py", "Share")}
"""The share of a pool that is handed to others: it has no use but to ask the pool."""


def made_with_self(source: str) -> Iterator[str]:
    """Yield the classes that are called with ``self``; errors and super calls are no parts."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id[0].isupper():
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            if any(isinstance(each, ast.Name) and each.id == "self" for each in given):
                yield node.func.id


def test_no_part_of_the_broker_receives_its_owner() -> None:
    found = {
        (str(path.relative_to(ROOT)), name)
        for path in sorted(ROOT.rglob("*.py"))
        for name in made_with_self(path.read_text(encoding="utf-8"))
    }

    assert found == ALLOWED


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("self.part = Part(self)", ["Part"]),
        ("self.part = Part(1, owner=self)", ["Part"]),
        ("self.part = Part(self.state, self.close)", []),
        ("make(self)", []),
    ],
)
def test_a_part_that_receives_its_owner_is_found(source: str, found: list[str]) -> None:
    assert list(made_with_self(source)) == found
