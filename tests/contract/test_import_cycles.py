"""No module imports one that imports it, and no folder holds more files than a reader takes in."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from tests.contract.import_cycles import cycles, graph_of

ROOT: Final = Path(__file__).resolve().parents[2]
ROOTS: Final = [ROOT / name for name in ("protos", "broker", "client", "spark_integration")]
FILES_MAX: Final = 16

KNOWN_LARGE: Final[dict[str, int]] = {}
"""Folders with more than ``FILES_MAX`` files. They only shrink."""


def test_modules_import_each_other_in_one_direction() -> None:
    assert [sorted(group) for group in cycles(graph_of(ROOTS))] == []


def test_no_folder_holds_too_many_files() -> None:
    files = Counter(
        str(path.parent.relative_to(ROOT)) for root in ROOTS for path in root.rglob("*.py") if "_pb2" not in path.name
    )

    assert {folder: count for folder, count in files.items() if count > FILES_MAX} == KNOWN_LARGE


@pytest.mark.parametrize(
    ("graph", "found"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"a"}, "c": {"a"}}, [{"a", "b"}]),
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"e"}, "e": {"d"}}, [{"a", "b", "c"}, {"d", "e"}]),
    ],
)
def test_a_cycle_is_found_however_long_it_is(graph: dict[str, set[str]], found: list[set[str]]) -> None:
    assert cycles({module: frozenset(targets) for module, targets in graph.items()}) == found
