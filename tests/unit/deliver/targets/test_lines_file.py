"""A file of JSON lines that survives a kill, a full disk, rotation and a second writer."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from forebay.deliver.targets.lines_file import POLL_S, SYNC_BYTES, WAIT_S, FileInUse, ForeignFile, LinesFile

INCARNATION = "1f2e-3d"


def line(offset: int, *, incarnation: str = INCARNATION, filler: int = 0) -> tuple[int, bytes]:
    """Return a line as the file target writes it."""
    return offset, b'{"key":"%b-0-%d","partition":0,"x":"%b"}' % (incarnation.encode(), offset, b"y" * filler)


class Time:
    """Time that only passes while a file waits."""

    def __init__(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.now = 0.0
        self.meanwhile = meanwhile

    def __call__(self) -> float:
        """Return the time."""
        return self.now

    def sleep(self, delay_s: float) -> None:
        """Let it pass."""
        self.now += delay_s
        self.meanwhile()


@contextmanager
def opened(path: Path, time: Time | None = None) -> Iterator[LinesFile]:
    """Open a file and close it."""
    file = LinesFile(path) if time is None else LinesFile(path, clock=time, sleep=time.sleep)
    try:
        yield file
    finally:
        file.close()


def offsets(path: Path) -> list[int]:
    """Return the offsets in a file, every line of which has to be whole."""
    return [int(json.loads(one)["key"].rsplit("-", 1)[1]) for one in path.read_bytes().split(b"\n")[:-1]]


def test_a_folder_that_cannot_be_synced_leaks_no_descriptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    before = len(os.listdir("/proc/self/fd"))
    with opened(tmp_path / "out.jsonl") as file, monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        for _ in range(5):
            with pytest.raises(OSError, match="Invalid argument"):
                file.append(INCARNATION, [line(0)])

    assert len(os.listdir("/proc/self/fd")) == before


def test_a_close_leaves_the_descriptor_to_an_append_that_is_in_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing, go_on = threading.Event(), threading.Event()
    write = os.pwrite

    def slowly(descriptor: int, data: bytes, position: int) -> int:
        writing.set()
        assert go_on.wait(20)
        return write(descriptor, data, position)

    monkeypatch.setattr(os, "pwrite", slowly)
    file = LinesFile(tmp_path / "out.jsonl")
    with ThreadPoolExecutor(1) as threads:
        appended = threads.submit(file.append, INCARNATION, [line(0)])
        assert writing.wait(20)
        file.close()
        with (tmp_path / "other").open("wb") as other:  # it would get a number that was closed
            go_on.set()
            assert appended.result(20) == 1
            assert os.fstat(other.fileno()).st_size == 0

    assert offsets(tmp_path / "out.jsonl") == [0]
    assert file._descriptor is None


def test_lines_are_appended_across_openings(tmp_path: Path) -> None:
    path = tmp_path / "a-0.jsonl"

    for first in (0, 2):
        with opened(path) as file:
            assert file.append(INCARNATION, [line(first), line(first + 1)]) == 2

    assert offsets(path) == [0, 1, 2, 3]


def test_lines_already_written_are_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "a-0.jsonl"
    with opened(path) as file:
        file.append(INCARNATION, [line(0), line(1)])

        assert file.append(INCARNATION, [line(1), line(2)]) == 1

    with opened(path) as file:
        assert file.append(INCARNATION, [line(0), line(1), line(2), line(3)]) == 1

    assert offsets(path) == [0, 1, 2, 3]


def test_an_offset_that_was_skipped_is_written_later(tmp_path: Path) -> None:
    path = tmp_path / "a-0.jsonl"
    with opened(path) as file:
        file.append(INCARNATION, [line(0), line(5)])

    with opened(path) as file:
        file.append(INCARNATION, [line(3), line(5)])

    assert offsets(path) == [0, 5, 3]


def test_the_same_offsets_of_a_sink_made_again_are_written(tmp_path: Path) -> None:
    path = tmp_path / "a-0.jsonl"
    with opened(path) as file:
        file.append("one", [line(0, incarnation="one")])

    with opened(path) as file:
        assert file.append("two", [line(0, incarnation="two")]) == 1

    assert offsets(path) == [0, 0]


@pytest.mark.parametrize("torn", [b"{", b'{"key":"1f2e-3d-0-2","partition":0,"x', b"\0" * 300])
def test_a_torn_line_is_cut_off(tmp_path: Path, torn: bytes, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "a-0.jsonl"
    with opened(path) as file:
        file.append(INCARNATION, [line(0), line(1)])
    whole = path.stat().st_size
    with path.open("ab") as stream:
        stream.write(torn)

    with opened(path) as file:
        file.append(INCARNATION, [line(2)])

    assert offsets(path) == [0, 1, 2]
    assert f"position={whole}" in caplog.text


@pytest.mark.parametrize("torn", [b"{", b'{"key":"1f', b"\0\0"])
def test_a_first_line_that_is_torn_is_cut_off(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "a-0.jsonl"
    path.write_bytes(torn)

    with opened(path) as file:
        file.append(INCARNATION, [line(0)])

    assert offsets(path) == [0]


@pytest.mark.parametrize("content", [b"a,b\n1,2\n", b"no line end", b'{"other": 1}\n'])
def test_a_file_of_another_program_is_refused_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a-0.jsonl"
    path.write_bytes(content)

    with opened(path) as file, pytest.raises(ForeignFile, match="move it away"):
        file.append(INCARNATION, [line(0)])

    assert path.read_bytes() == content


def test_a_strange_line_further_on_is_left_and_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "a-0.jsonl"
    path.write_bytes(line(0)[1] + b"\n??\n" + line(1)[1] + b"\n")

    with opened(path) as file:
        assert file.append(INCARNATION, [line(0), line(1), line(2)]) == 1

    assert b"\n??\n" in path.read_bytes()
    assert "foreign lines left in place" in caplog.text


def test_a_file_larger_than_one_read_is_known_whole(tmp_path: Path) -> None:
    path = tmp_path / "a-0.jsonl"
    lines = [line(offset, filler=900) for offset in range(3000)]
    with opened(path) as file:
        file.append(INCARNATION, lines)

    with opened(path) as file:
        assert file.append(INCARNATION, [*lines, line(3000)]) == 1

    assert path.stat().st_size > 2 << 20
    assert offsets(path) == list(range(3001))


def test_after_rotation_a_new_file_is_begun_without_repeating_anything(tmp_path: Path) -> None:
    path, rotated = tmp_path / "a-0.jsonl", tmp_path / "a-0.jsonl.1"
    with opened(path) as file:
        file.append(INCARNATION, [line(0), line(1)])
        path.rename(rotated)

        file.append(INCARNATION, [line(1), line(2)])

    assert offsets(rotated) == [0, 1]
    assert offsets(path) == [2]


def test_a_file_that_another_process_writes_for_long_is_in_use(tmp_path: Path) -> None:
    path, time = tmp_path / "a-0.jsonl", Time()
    with opened(path, time) as file, path.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)

        with pytest.raises(FileInUse, match="another process"):
            file.append(INCARNATION, [line(0)])
        fcntl.flock(other, fcntl.LOCK_UN)

        assert WAIT_S <= time.now < WAIT_S + 2 * POLL_S
        assert file.append(INCARNATION, [line(0)]) == 1


def test_a_writer_waits_for_another_one(tmp_path: Path) -> None:
    path = tmp_path / "a-0.jsonl"
    with path.open("ab") as other:
        time = Time(lambda: fcntl.flock(other, fcntl.LOCK_UN))
        with opened(path, time) as file:
            fcntl.flock(other, fcntl.LOCK_EX)

            assert file.append(INCARNATION, [line(0)]) == 1

    assert time.now == POLL_S


def test_a_file_that_is_closed_waits_for_no_other_writer(tmp_path: Path) -> None:
    path = tmp_path / "a-0.jsonl"
    with path.open("ab") as other:
        time = Time()
        with opened(path, time) as file:
            time.meanwhile = file.close
            fcntl.flock(other, fcntl.LOCK_EX)

            with pytest.raises(FileInUse):
                file.append(INCARNATION, [line(0)])

    assert time.now == POLL_S


def test_a_path_that_cannot_be_examined_leaves_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path) -> os.stat_result:
        raise PermissionError(errno.EACCES, "Permission denied")

    path = tmp_path / "a-0.jsonl"
    with opened(path) as file, opened(path) as other:
        file.append(INCARNATION, [line(0)])
        with monkeypatch.context() as patch:
            patch.setattr(Path, "stat", fail)
            with pytest.raises(PermissionError):
                file.append(INCARNATION, [line(1)])

        assert other.append(INCARNATION, [line(1)]) == 1


class FailingOnce:
    """A sync that fails once, for a file and not for its folder, and what was written in place."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.failures = 0
        self.written: list[tuple[int, int]] = []
        self._sync, self._write = os.fsync, os.pwrite
        patch.setattr(os, "fsync", self.fsync)
        patch.setattr(os, "pwrite", self.pwrite)

    def fsync(self, descriptor: int) -> None:
        if not self.failures and stat.S_ISREG(os.fstat(descriptor).st_mode):
            self.failures += 1
            raise OSError(errno.EIO, "Input/output error")
        self._sync(descriptor)

    def pwrite(self, descriptor: int, data: bytes, position: int) -> int:
        self.written.append((position, position + len(data)))
        return self._write(descriptor, data, position)


def test_lines_of_a_killed_writer_whose_sync_failed_are_written_again_before_they_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a-0.jsonl"
    content = line(0, filler=900_000)[1] + b"\n" + line(1, filler=900_000)[1] + b"\n"
    path.write_bytes(content)
    with opened(path) as file:
        disk = FailingOnce(monkeypatch)
        with pytest.raises(OSError, match="Input/output"):
            file.append(INCARNATION, [line(0), line(1)])
        disk.written.clear()

        assert file.append(INCARNATION, [line(0), line(1)]) == 0

    assert disk.written == [(0, 1 << 20), (1 << 20, len(content))]
    assert path.read_bytes() == content


class Disk:
    """Content of one file on the disk: a sync that fails marks as written what it did not write."""

    def __init__(self, path: Path, patch: pytest.MonkeyPatch) -> None:
        self.content = bytearray()
        self.writes = 0
        self.largest = 0
        """Most bytes that waited for a sync."""
        self.fails_next = False
        self._path = path
        self._dirty = [(0, path.stat().st_size)]
        self._sync, self._write = os.fsync, os.pwrite
        patch.setattr(os, "fsync", self.fsync)
        patch.setattr(os, "pwrite", self.pwrite)

    def fsync(self, descriptor: int) -> None:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return
        dirty, self._dirty = self._dirty, []
        self.largest = max(self.largest, sum(end - first for first, end in dirty))
        if self.fails_next:
            self.fails_next = False
            raise OSError(errno.EIO, "Input/output error")
        cached = self._path.read_bytes()
        for first, end in dirty:
            self.content.extend(bytes(max(0, end - len(self.content))))
            self.content[first:end] = cached[first:end]

    def pwrite(self, descriptor: int, data: bytes, position: int) -> int:
        self.writes += len(data)
        self._dirty.append((position, position + len(data)))
        return self._write(descriptor, data, position)


def test_lines_whose_sync_failed_before_a_restart_are_written_again_before_they_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a-0.jsonl"
    path.write_bytes(line(0)[1] + b"\n" + line(1)[1] + b"\n")
    disk = Disk(path, monkeypatch)
    disk.fails_next = True
    with opened(path) as file, pytest.raises(OSError, match="Input/output"):
        file.append(INCARNATION, [line(0), line(1)])

    with opened(path) as restarted:
        assert restarted.append(INCARNATION, [line(0), line(1)]) == 0

    assert disk.content == path.read_bytes()


def test_a_restart_writes_again_no_more_than_one_sync_may_have_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a-0.jsonl"
    path.touch()
    disk = Disk(path, monkeypatch)
    with opened(path) as file:
        file.append(INCARNATION, [line(offset, filler=SYNC_BYTES // 2) for offset in range(5)])
    assert disk.largest == SYNC_BYTES
    disk.writes = 0

    with opened(path) as restarted:
        assert restarted.append(INCARNATION, [line(4, filler=SYNC_BYTES // 2)]) == 0

    assert disk.writes == SYNC_BYTES
    assert disk.content == path.read_bytes()


def test_lines_whose_sync_failed_and_that_are_gone_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a-0.jsonl"
    path.write_bytes(line(0)[1] + b"\n")
    with opened(path) as file:
        FailingOnce(monkeypatch)
        with pytest.raises(OSError, match="Input/output"):
            file.append(INCARNATION, [line(0)])
        os.truncate(path, 0)

        assert file.append(INCARNATION, [line(0)]) == 1

    assert offsets(path) == [0]


def test_own_lines_that_could_be_neither_synced_nor_cut_off_are_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int, length: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    path = tmp_path / "a-0.jsonl"
    with opened(path) as file:
        file.append(INCARNATION, [line(0)])
        known = path.stat().st_size
        disk = FailingOnce(monkeypatch)
        with monkeypatch.context() as patch:
            patch.setattr(os, "ftruncate", fail)
            with pytest.raises(OSError, match="Input/output"):
                file.append(INCARNATION, [line(1)])
        disk.written.clear()

        assert file.append(INCARNATION, [line(1)]) == 0

    assert disk.written == [(known, path.stat().st_size)]
    assert offsets(path) == [0, 1]


def test_two_writers_take_turns_and_know_of_each_other(tmp_path: Path) -> None:
    path = tmp_path / "a-0.jsonl"
    with opened(path) as one, opened(path) as two:
        one.append(INCARNATION, [line(0)])
        two.append(INCARNATION, [line(0), line(1)])
        one.append(INCARNATION, [line(1), line(2)])

    assert offsets(path) == [0, 1, 2]


def test_a_file_cut_by_another_process_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a-0.jsonl"
    with opened(path) as file:
        file.append(INCARNATION, [line(0), line(1)])
        os.truncate(path, 0)

        file.append(INCARNATION, [line(1)])

    assert offsets(path) == [1]


def test_a_full_disk_leaves_no_part_of_a_line_and_nothing_counts_as_written(tmp_path: Path) -> None:
    program = textwrap.dedent("""
        import resource, signal, sys
        from pathlib import Path
        from forebay.deliver.targets.lines_file import LinesFile
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
        file = LinesFile(Path(sys.argv[1]))
        line = lambda offset: (offset, b'{"key":"i-0-%d","x":"%b"}' % (offset, b"y" * 300))
        file.append("i", [line(0), line(1)])
        try:
            file.append("i", [line(2), line(3)])
        except OSError as error:
            print(type(error).__name__)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        print(file.append("i", [line(2), line(3)]))
        file.close()
    """)
    path = tmp_path / "a-0.jsonl"

    run = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True, timeout=60
    )

    assert run.stdout.split() == ["OSError", "2"]
    assert offsets(path) == [0, 1, 2, 3]


@pytest.mark.slow
def test_a_writer_killed_at_any_moment_leaves_whole_lines_each_once_after_its_restart(tmp_path: Path) -> None:
    # The writer tells what it may ack, and after each kill begins again at the first offset that was not acked.
    program = textwrap.dedent("""
        import sys
        from pathlib import Path
        from forebay.deliver.targets.lines_file import LinesFile
        file = LinesFile(Path(sys.argv[1]))
        offset = int(sys.argv[2])
        line = lambda offset: (offset, b'{"key":"i-0-%d","x":"%b"}' % (offset, b"y" * 20_000))
        while True:
            file.append("i", [line(one) for one in range(offset, offset + 50)])
            offset += 50
            print(offset, flush=True)
    """)
    path = tmp_path / "a-0.jsonl"
    random = Random(7)
    acked = 0

    for _ in range(8):
        writer = subprocess.Popen(
            [sys.executable, "-c", program, str(path), str(acked)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        for _ in range(random.randint(1, 5)):
            acked = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        rest, _ = writer.communicate(timeout=60)
        acked = max([acked, *map(int, rest.split())])

    with opened(path) as file:
        file.append("i", [(acked, b'{"key":"i-0-%d"}' % acked)])
    found = offsets(path)
    assert found == list(range(len(found)))
    assert len(found) > acked
