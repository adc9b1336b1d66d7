"""CONTRIBUTING.md names files and folders that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
NAMED: Final = sorted(
    set(
        re.findall(
            r"`((?:broker|client|protos|spark_integration|tests)/[^` ]+)`", (ROOT / "CONTRIBUTING.md").read_text()
        )
    )
)


def test_the_table_of_places_is_found() -> None:
    assert len(NAMED) > 20


@pytest.mark.parametrize("name", NAMED)
def test_a_named_file_or_folder_exists(name: str) -> None:
    assert list(ROOT.glob(name)), name
