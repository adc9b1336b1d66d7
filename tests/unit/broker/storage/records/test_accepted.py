"""The mapped file of accepted counts: believed after a kill, and after nothing else."""

from __future__ import annotations

import errno
import mmap
import os
from pathlib import Path
from typing import Any

import pytest

from forebay.broker.storage.records.accepted import STEP_SLOTS, AcceptedFile, boot_id

BOOT = bytes(range(16))
OTHER_BOOT = bytes(16)


def opened(path: Path, start_count: int, *, counting: int | None = None, boot: bytes | None = BOOT) -> AcceptedFile:
    """As a start opens it; the one before counted, unless another one is named."""
    counted = start_count - 1 if counting is None else counting
    return AcceptedFile(path, counting=counted, start_count=start_count, boot=boot)


def started(path: Path, start_count: int) -> AcceptedFile:
    found = opened(path, start_count)
    found.begin()
    return found


def test_the_next_start_of_the_same_boot_finds_the_counts(tmp_path: Path) -> None:
    file = started(tmp_path / "accepted", 1)
    assert file.has_room(3)
    file.note(3, 1 << 40)
    file.close()

    found = opened(tmp_path / "accepted", 2)

    assert found.found is not None
    assert (found.found[3], found.found[2]) == (1 << 40, 0)
    found.close()


def test_another_boot_or_another_start_between_says_nothing(tmp_path: Path) -> None:
    started(tmp_path / "accepted", 1).close()

    for start_count, boot in ((2, OTHER_BOOT), (3, BOOT), (1, BOOT), (2, None)):
        found = opened(tmp_path / "accepted", start_count, boot=boot)
        assert found.found is None
        found.close()


def test_starts_that_were_killed_before_they_began_to_count_leave_the_counts_to_the_next(tmp_path: Path) -> None:
    file = started(tmp_path / "accepted", 1)
    file.note(0, 7)
    file.close()
    for killed in (2, 3):
        opened(tmp_path / "accepted", killed, counting=1).close()

    found = opened(tmp_path / "accepted", 4, counting=1)

    assert found.found is not None
    assert found.found[0] == 7
    found.close()


def test_a_damaged_or_short_file_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "accepted"
    started(path, 1).close()
    content = path.read_bytes()

    for damaged in (b"", content[:10], content[:9] + bytes([content[9] ^ 1]) + content[10:]):
        path.write_bytes(damaged)
        found = opened(path, 2)
        assert found.found is None
        found.close()


def test_it_grows_by_allocated_steps_and_keeps_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "accepted"
    file = started(path, 1)
    file.note(5, 55)

    assert file.has_room(STEP_SLOTS)
    file.note(STEP_SLOTS, 66)

    assert os.stat(path).st_blocks * 512 >= os.stat(path).st_size
    file.close()
    found = opened(path, 2)
    assert found.found is not None
    assert (found.found[5], found.found[STEP_SLOTS]) == (55, 66)
    found.close()


def test_a_start_forgets_the_counts_of_the_one_before(tmp_path: Path) -> None:
    file = started(tmp_path / "accepted", 1)
    file.note(0, 7)
    file.close()
    started(tmp_path / "accepted", 2).close()

    found = opened(tmp_path / "accepted", 3)

    assert found.found is not None
    assert found.found[0] == 0
    found.close()


def test_without_room_for_it_no_count_is_kept_and_nothing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    file = started(tmp_path / "accepted", 1)

    assert not file.has_room(0)
    file.note(0, 1)
    file.close()
    assert "counts could not be stored" in caplog.text


def test_a_boot_has_a_name_where_the_system_gives_one(tmp_path: Path) -> None:
    (tmp_path / "boot_id").write_text("01234567-89ab-cdef-0123-456789abcdef\n")
    (tmp_path / "strange").write_text("no boot\n")

    assert boot_id(tmp_path / "boot_id") == bytes.fromhex("0123456789abcdef0123456789abcdef")
    assert boot_id(tmp_path / "strange") is None
    assert boot_id(tmp_path / "missing") is None


def test_counts_are_stored_on_when_no_room_for_more_can_be_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = started(tmp_path / "accepted", 1)
    file.note(0, 7)

    def refused(*_: Any) -> Any:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    with monkeypatch.context() as patched:
        patched.setattr(mmap, "mmap", refused)
        assert not file.has_room(STEP_SLOTS)
    file.note(0, 8)
    file.close()

    found = opened(tmp_path / "accepted", 2)
    assert found.found is not None
    assert found.found[0] == 8
    found.close()
