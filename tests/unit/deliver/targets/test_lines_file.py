"""A file of JSON lines that survives a kill, a full disk, rotation and a second writer."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from forebay.deliver.targets.lines_file import FileInUse, ForeignFile, LinesFile

INCARNATION = "1f2e-3d"


def line(offset: int, *, incarnation: str = INCARNATION, filler: int = 0) -> tuple[int, bytes]:
    """Return a line as the file target writes it."""
    return offset, b'{"key":"%b-0-%d","partition":0,"x":"%b"}' % (incarnation.encode(), offset, b"y" * filler)


@contextmanager
def opened(path: Path) -> Iterator[LinesFile]:
    """Open a file and close it."""
    file = LinesFile(path)
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


def test_a_file_that_another_process_writes_is_in_use(tmp_path: Path) -> None:
    path = tmp_path / "a-0.jsonl"
    with opened(path) as file, path.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)

        with pytest.raises(FileInUse, match="another process"):
            file.append(INCARNATION, [line(0)])
        fcntl.flock(other, fcntl.LOCK_UN)

        assert file.append(INCARNATION, [line(0)]) == 1


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
