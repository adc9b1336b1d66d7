"""The files and folders of the repository that a document names exist.

A name in backticks counts as one of the repository when it begins with a folder beside the document or in the root, or
ends as source files do. A path is relative to the root, to the folder of the document, or the end of the path of a
file. A bare name is a file in or below the folder of the document: elsewhere it could be any of several.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
CODE: Final = re.compile(r"`([^`\s]+)`")
FENCED: Final = re.compile(r"^(`{3,}).*?^\1`*[ \t]*$", re.MULTILINE | re.DOTALL)
SOURCE: Final = re.compile(r"[\w*/.-]+\.(?:py|pyi|proto|go)")
MADE: Final = frozenset({".tools", ".venv", ".venv-proto", "build", "dist", "htmlcov", "site"})
"""Folders that a command creates: a checkout has none of them."""

NOT_WALKED: Final = MADE | {"node_modules"}
NOT_OURS: Final = {
    "CONTRIBUTING.md": {"forebay/__init__.py"},
    "docs/how-to/use-another-language.md": {"google/rpc/status.proto"},
}
"""Names of files that must not exist, or are elsewhere, by document."""


def walked() -> Iterator[Path]:
    """Yield every file of the repository that is ours, relative to the root."""
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in NOT_WALKED)
        yield from (Path(folder, name).relative_to(ROOT) for name in sorted(files))


def named(text: str, beside: Path, root: Path = ROOT) -> list[str]:
    """Return the names of files and folders of the repository in a document of the folder ``beside``."""
    found = set()
    for name in CODE.findall(FENCED.sub("", text)):
        path = name.removesuffix(",").partition("::")[0]
        first, slash, _ = path.partition("/")
        is_within = bool(slash and first) and first not in MADE and any((at / first).is_dir() for at in (root, beside))
        if is_within or (SOURCE.fullmatch(path) and not path.startswith((".", "/"))):
            found.add(path)
    return sorted(found)


def exists(path: str, beside: Path, files: frozenset[Path], root: Path = ROOT) -> bool:
    """Return True if the file or folder that a document of the folder ``beside`` names exists."""
    if "/" not in path:
        return any(beside.rglob(path))
    if any(any(at.glob(path)) for at in (root, beside)):
        return True
    return SOURCE.fullmatch(path) is not None and any(file.match(path) for file in files)


def missing(document: str, text: str, root: Path = ROOT) -> list[str]:
    """Return the names in a document that no file or folder has."""
    beside = (root / document).parent
    names = [name for name in named(text, beside, root) if name not in NOT_OURS.get(document, ())]
    return [name for name in names if not exists(name, beside, FILES, root)]


FILES: Final = frozenset(path for path in walked() if SOURCE.fullmatch(path.name))
# CHANGELOG names files of former versions.
DOCUMENTS: Final = [str(path) for path in walked() if path.suffix == ".md" and path.name != "CHANGELOG.md"]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_files_and_folders_that_a_document_names_exist(document: str) -> None:
    assert missing(document, (ROOT / document).read_text(encoding="utf-8")) == []


def test_the_table_of_places_is_found() -> None:
    assert len(named((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), ROOT)) > 20


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`tests/contract/test_moved.py`", ["tests/contract/test_moved.py"]),
        ("`tests/contract/test_named_files.py`, `tests/contract`, `contract/test_n*.py`", []),
        ("`test_named_files.py` of another folder", ["test_named_files.py"]),
        ("`broker/forebay/nothing/`", ["broker/forebay/nothing/"]),
        ("```sh\npython broker/nothing.py\n```\n`a/b`, `/stats`, `./job.py`, `dist/x`", []),
    ],
)
def test_a_name_without_a_file_is_found(text: str, expected: list[str]) -> None:
    assert missing("docs/page.md", text) == expected
