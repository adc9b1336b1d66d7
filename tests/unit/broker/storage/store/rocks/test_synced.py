"""The note of how far the log was synced."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.broker.storage.store.rocks.synced import Note, SyncMark


def reopened(path: Path) -> Note:
    """Return the contents after the next start."""
    mark = SyncMark(path)
    mark.close()
    return mark.found


def test_a_new_note_says_that_nothing_was_synced(tmp_path: Path) -> None:
    assert reopened(tmp_path / "synced") == Note()
    assert reopened(tmp_path / "synced") == Note()


def test_the_last_note_is_found(tmp_path: Path) -> None:
    mark = SyncMark(tmp_path / "synced")
    for sequence in (7, 1 << 40, 9):
        mark.note(sequence, (sequence, 3))
    mark.close()

    assert mark.found == Note()
    assert reopened(tmp_path / "synced") == Note(9, (9, 3))


def test_a_note_takes_no_more_room_than_it_took_when_it_was_new(tmp_path: Path) -> None:
    mark = SyncMark(tmp_path / "synced")
    before = (tmp_path / "synced").stat().st_size
    mark.note((1 << 64) - 1, (0, 0))
    mark.close()

    assert (tmp_path / "synced").stat().st_size == before > 0


@pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 12, b"\xff" * 13])
def test_a_note_that_is_not_whole_says_nothing_and_is_recreated(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "synced").write_bytes(content)

    mark = SyncMark(tmp_path / "synced")
    mark.note(5, (6, 7))
    mark.close()

    assert mark.found == Note()
    assert reopened(tmp_path / "synced") == Note(5, (6, 7))
