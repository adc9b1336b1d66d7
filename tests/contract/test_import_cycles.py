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

KNOWN: Final = frozenset(
    f"forebay.broker.runtime.{name}"
    for name in (
        "commit.reservation",
        "dead_letters.batch",
        "dead_letters.mover",
        "delivery.consumer",
        "delivery.lessor",
        "delivery.ownership",
        "delivery.puller",
        "delivery.subscription",
        "delivery.subscriptions",
        "epochs.stage",
        "epochs.staging",
        "read.replay",
        "sink.buffer",
        "sink.expiry",
        "sink.memory_tier",
        "sink.repair",
        "sink.retention",
        "sink.schemas",
    )
)
"""The one cycle there still is: parts of a sink that receive the sink. It only shrinks."""

KNOWN_LARGE: Final = {"client/forebay/cli/demo": 19}
"""Folders with more than ``FILES_MAX`` files. They only shrink."""


def test_modules_import_each_other_in_one_direction() -> None:
    found = cycles(graph_of(ROOTS))

    assert [sorted(group) for group in found] == [sorted(KNOWN)], "take a module out of KNOWN once it is out"


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
