"""Records of decisions: numbered without a gap, complete, and listed in their index."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

FOLDER: Final = Path(__file__).resolve().parents[2] / "docs" / "decisions"
RECORDS: Final = sorted(FOLDER.glob("[0-9]*.md"))
SECTIONS: Final = ["Decision", "Reason", "Alternatives", "Revisit when"]


def test_numbers_follow_each_other() -> None:
    assert [path.name[:4] for path in RECORDS] == [f"{number:04d}" for number in range(1, len(RECORDS) + 1)]


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_has_a_title_a_status_a_date_and_all_sections(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert re.match(rf"# {int(path.name[:4])}\. .+\n\n- Status: .+\n- Date: \d{{4}}-\d\d-\d\d\n", text)
    assert re.findall(r"^## (.+)$", text, re.M) == SECTIONS


def test_the_index_lists_every_record_by_its_title() -> None:
    rows = re.findall(r"^\| (\d{4}) \| \[(.+?)\]\((.+?)\) \|", (FOLDER / "index.md").read_text(encoding="utf-8"), re.M)
    titles = {path: path.read_text(encoding="utf-8").partition("\n")[0].partition(". ")[2] for path in RECORDS}

    assert sorted(rows) == [(path.name[:4], titles[path], path.name) for path in RECORDS]
