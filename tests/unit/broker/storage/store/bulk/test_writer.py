from __future__ import annotations

import fcntl
import itertools
import os
from pathlib import Path

import pytest

from forebay.broker.storage.store.bulk.writer import BLOCK_BYTES, BUFFER_BYTES, FileWriter, new_buffer


@pytest.mark.parametrize("blocks", [1, 2, BUFFER_BYTES // BLOCK_BYTES, BUFFER_BYTES // BLOCK_BYTES + 3])
def test_pieces_of_any_size_are_one_after_the_other(tmp_path: Path, blocks: int) -> None:
    content = os.urandom(blocks * BLOCK_BYTES)
    cuts = [0, 1, 1, 100, BLOCK_BYTES - 1, len(content)]

    with FileWriter(tmp_path / "file", new_buffer()) as writing:
        for first, end in itertools.pairwise(cuts):
            writing.add(memoryview(content)[first:end])
        writing.finish()

    assert (tmp_path / "file").read_bytes() == content


def test_a_buffer_serves_one_file_after_the_other(tmp_path: Path) -> None:
    buffer = new_buffer()
    for name in ("a", "b"):
        with FileWriter(tmp_path / name, buffer) as writing:
            writing.add(name.encode() * BLOCK_BYTES)
            writing.finish()

    assert [(tmp_path / name).read_bytes()[:1] for name in ("a", "b")] == [b"a", b"b"]


def test_a_file_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"kept")

    with pytest.raises(FileExistsError):
        FileWriter(tmp_path / "file", new_buffer())

    assert (tmp_path / "file").read_bytes() == b"kept"


def test_a_write_that_cannot_go_past_the_page_cache_goes_the_usual_way(tmp_path: Path) -> None:
    buffer = new_buffer()
    with FileWriter(tmp_path / "file", buffer) as writing:
        writing.add(b"x" * 100)  # no whole block: refused where direct writes are known
        writing.finish()

    assert (tmp_path / "file").read_bytes() == b"x" * 100


@pytest.mark.parametrize("size", [1, BLOCK_BYTES + 1, BUFFER_BYTES - 1, BUFFER_BYTES + 100, 2 * BUFFER_BYTES])
def test_a_file_may_end_within_a_block_and_only_that_part_is_written_normally(
    tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = os.urandom(size)
    written: list[tuple[bool, int]] = []
    write = os.write

    def note(handle: int, data: memoryview) -> int:
        written.append((bool(fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_DIRECT), len(data)))
        return write(handle, data)

    with FileWriter(tmp_path / "file", new_buffer()) as writing:
        direct = fcntl.fcntl(writing.handle, fcntl.F_GETFL) & os.O_DIRECT
        monkeypatch.setattr(os, "write", note)
        writing.add(content)
        writing.finish()

    assert (tmp_path / "file").read_bytes() == content
    if not direct:
        pytest.skip("the file system has no direct I/O")
    assert sum(length for is_direct, length in written if not is_direct) == size % BLOCK_BYTES


def test_a_file_is_created_in_an_open_directory_with_the_mode_that_it_gets(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    before = os.umask(0o022)
    try:
        with FileWriter("file", new_buffer(), mode=0o666, folder=folder) as writing:
            writing.add(b"x")
            writing.finish()
    finally:
        os.umask(before)
        os.close(folder)

    assert (tmp_path / "file").read_bytes() == b"x"
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o644


def test_a_file_system_without_direct_writes_takes_the_same_bytes() -> None:
    shared = Path("/dev/shm")
    if not shared.is_dir():
        pytest.skip("needs a file system in memory")
    path = shared / f"forebay-writing-{os.getpid()}"
    content = b"x" * (BUFFER_BYTES + 10)
    try:
        with FileWriter(path, new_buffer()) as writing:
            writing.add(content)
            writing.finish()
        assert path.read_bytes() == content
    finally:
        path.unlink()
