"""The result of a verification is kept beside the data, until the next one replaces it."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.broker.core.last_check import LastCheck
from forebay.broker.storage.repair.last_check import FILE, last, save


def test_the_last_result_replaces_the_one_before(tmp_path: Path) -> None:
    save(tmp_path, LastCheck(1, damage=0, damaged_pages=0, lost_records=0))
    save(tmp_path, LastCheck(2, damage=0, damaged_pages=1, lost_records=7))

    found = last(tmp_path)

    assert found == LastCheck(2, damage=0, damaged_pages=1, lost_records=7)
    assert found is not None
    assert not found.is_clean


def test_a_directory_that_was_never_verified_has_no_result(tmp_path: Path) -> None:
    assert last(tmp_path) is None


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"at_us": 1}', b'{"at_us": "<b>", "damage": 0}', b"\xff" * 9_000]
)
def test_a_damaged_file_is_no_result(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)

    assert last(tmp_path) is None
