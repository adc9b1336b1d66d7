"""Files of a backup are read several at once, and the first failure ends all of them."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.broker.storage.backup.errors import BackupStopped, TargetFailed
from forebay.broker.storage.backup.manifest import Piece
from forebay.broker.storage.backup.restores.files import MISSING, Files
from forebay.broker.storage.replication.engines.memory import MemoryTarget

WAIT_S = 20.0


class Target(MemoryTarget):
    """A target that counts how many names are read at the same time."""

    reads_at_once = 3

    def __init__(self) -> None:
        super().__init__()
        self.together = threading.Barrier(self.reads_at_once)
        self.begun: list[str] = []

    def get(self, name: str) -> Iterator[bytes]:
        self.begun.append(name)
        return super().get(name)


class Together(Target):
    """One that answers once as many names are asked for as it reads at once."""

    def get(self, name: str) -> Iterator[bytes]:
        self.together.wait(WAIT_S)
        return super().get(name)


class Failing(Target):
    """One that does not answer."""

    def get(self, name: str) -> Iterator[bytes]:
        self.begun.append(name)
        raise TargetFailed("the bucket does not answer")


def pieces(target: MemoryTarget, count: int) -> list[Piece]:
    found = []
    for number in range(count):
        content = bytes([number]) * (100 + number)
        found.append(Piece(f"files/{number}", len(content), zlib.crc32(content), "first"))
        target.content[found[-1].name] = content
    return found


def refuse(piece: Piece, problem: str) -> None:
    raise AssertionError(f"{piece.path} {problem}")


def test_as_many_files_are_read_at_once_as_the_target_says(tmp_path: Path) -> None:
    target = Together()
    wanted = pieces(target, 6)

    files = Files(target, on_damage=refuse)
    files.write((piece, tmp_path) for piece in wanted)
    files.sync()

    assert {piece.name: (tmp_path / piece.path).read_bytes() for piece in wanted} == target.content


def test_a_missing_and_a_damaged_file_are_named_and_the_others_are_written(tmp_path: Path) -> None:
    target = Target()
    wanted = pieces(target, 5)
    del target.content[wanted[1].name]
    target.content[wanted[3].name] = b"x" * 103
    problems: dict[str, str] = {}

    Files(target, on_damage=lambda piece, problem: problems.update({piece.path: problem})).write(
        (piece, tmp_path) for piece in wanted
    )

    assert problems == {"files/1": MISSING, "files/3": "has other bytes than its checksum says"}
    assert sorted(path.name for path in (tmp_path / "files").iterdir()) == ["0", "2", "3", "4"]


def test_a_file_that_is_not_wanted_is_not_read(tmp_path: Path) -> None:
    target = Target()
    wanted = pieces(target, 3)

    Files(target, on_damage=refuse, is_wanted=lambda piece, into: piece.path != "files/1" and into == tmp_path).write(
        (piece, tmp_path) for piece in wanted
    )

    assert sorted(target.begun) == [wanted[0].name, wanted[2].name]


def test_the_first_failure_is_raised_and_files_that_were_not_begun_are_not_read(tmp_path: Path) -> None:
    target = Failing()

    with pytest.raises(TargetFailed, match="the bucket does not answer"):
        Files(target, on_damage=refuse).write((piece, tmp_path) for piece in pieces(target, 100))

    assert len(target.begun) <= target.reads_at_once
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("forebay-files")]


def test_an_exception_of_the_caller_for_damage_or_to_stop_ends_the_work(tmp_path: Path) -> None:
    target = Target()
    wanted = pieces(target, 100)
    target.content[wanted[0].name] = b""

    with pytest.raises(AssertionError, match="files/0 has 0 bytes instead of 100"):
        Files(target, on_damage=refuse).write((piece, tmp_path) for piece in wanted)
    target.begun.clear()

    def stop(piece: Piece, into: Path) -> bool:
        raise BackupStopped("the broker is stopping")

    with pytest.raises(BackupStopped):
        Files(target, on_damage=refuse, is_wanted=stop).write((piece, tmp_path) for piece in wanted)
    assert target.begun == []


def test_the_bytes_of_each_part_are_counted(tmp_path: Path) -> None:
    target = Target()
    wanted = pieces(target, 4)
    counted: list[int] = []

    Files(target, on_damage=refuse, on_part=counted.append).write((piece, tmp_path) for piece in wanted)

    assert sorted(counted) == [100, 101, 102, 103]
