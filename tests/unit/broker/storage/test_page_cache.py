"""Reading the ends of a file before it is ingested."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.broker.storage.page_cache import read_ends


@pytest.mark.parametrize("size", [0, 1, 1 << 20, 3 << 20])
def test_files_of_any_size_are_read_and_left_as_they_are(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file.sst"
    path.write_bytes(b"x" * size)

    read_ends(path)

    assert path.stat().st_size == size


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_ends(tmp_path / "none.sst")
