from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from forebay.broker.storage.errors import StoreUnreadable
from forebay.broker.storage.store.bulk import remote as remotes
from forebay.broker.storage.store.bulk.remote import KEPT, LOADING, RemoteFiles, RemoteNotYet
from forebay.broker.storage.store.bulk.remote_list import read_list, write_list
from tests.support.calls.eventually import until

NAMES = ["a.pages", "b.pages", "c.pages"]


class Source:
    """Files in memory. While ``is_open`` is not set, a fetch waits in the middle."""

    def __init__(self) -> None:
        self.files = {name: name.encode() for name in NAMES}
        self.is_open = threading.Event()
        self.is_open.set()
        self.began = threading.Semaphore(0)
        self.fetched: list[str] = []
        self.cause = ""
        self.failure: type[StoreUnreadable] = StoreUnreadable

    def fetch(self, name: str, folder: Path, stop: threading.Event) -> Path | None:
        self.fetched.append(name)
        self.began.release()
        while not self.is_open.wait(0.01):
            if stop.is_set():
                raise StoreUnreadable("the broker is stopping")
        if self.cause:
            raise self.failure(self.cause)
        if name not in self.files:
            return None
        folder.mkdir(exist_ok=True)
        (folder / name).write_bytes(self.files[name])
        return folder / name


class Directory:
    """A directory with remote files, and what they have called."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.source = Source()
        (path / "bulk").mkdir()
        write_list(path, dict.fromkeys(NAMES, 7))
        self.arrived: list[str] = []
        self.needless: list[str] = []
        self.is_complete = threading.Event()

    @contextmanager
    def remote(self) -> Iterator[RemoteFiles]:
        """The remote files of a process."""
        files = RemoteFiles(
            self.path,
            self.source,
            read_list(self.path),
            on_arrival=lambda path: self.arrived.append(path.name),
            on_needless=lambda path: self.needless.append(path.name),
            on_complete=self.is_complete.set,
        )
        try:
            yield files
        finally:
            self.source.is_open.set()
            files.close()

    def local(self) -> list[str]:
        """Names of the files that are there."""
        return sorted(path.name for path in (self.path / "bulk").iterdir())


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    return Directory(tmp_path)


def test_all_files_are_fetched_the_oldest_first(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remotes, "THREADS", 1)
    with directory.remote() as files:
        assert files.remote_bytes == 21
        files.start()
        assert directory.is_complete.wait(10.0)

        assert directory.source.fetched == NAMES
        assert directory.arrived == NAMES
        assert (files.names, files.remote_bytes) == ([], 0)
    assert [(directory.path / "bulk" / name).read_bytes() for name in NAMES] == [name.encode() for name in NAMES]


def test_a_file_of_before_takes_no_further_space(directory: Directory) -> None:
    (directory.path / LOADING / KEPT).mkdir(parents=True)
    (directory.path / LOADING / KEPT / "a.pages").write_bytes(b"a.pages")
    with directory.remote() as files:
        assert (files.remote_bytes, files.space_bytes) == (21, 14)
        files.fetch("b.pages")
        assert (files.remote_bytes, files.space_bytes) == (14, 7)
        files.fetch("a.pages")
        files.forget(["c.pages"])
        assert (files.remote_bytes, files.space_bytes) == (0, 0)


def test_a_file_that_a_reader_needs_is_fetched_at_once(directory: Directory) -> None:
    with directory.remote() as files:
        files.fetch("c.pages")
        files.fetch("c.pages")

        assert directory.source.fetched == ["c.pages"]
        assert (directory.local(), files.names, files.remote_bytes) == (["c.pages"], NAMES[:2], 14)


def test_a_file_that_is_needed_soon_is_fetched_before_the_others(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remotes, "THREADS", 1)
    with directory.remote() as files:
        files.hurry("c.pages")
        files.start()
        assert directory.is_complete.wait(10.0)

    assert directory.source.fetched == ["c.pages", "a.pages", "b.pages"]


def test_a_file_is_fetched_once_however_many_readers_wait_for_it(directory: Directory) -> None:
    directory.source.is_open.clear()
    with directory.remote() as files, ThreadPoolExecutor(4) as readers:
        waiting = [readers.submit(files.fetch, "b.pages") for _ in range(4)]
        directory.source.began.acquire()
        directory.source.is_open.set()
        for each in waiting:
            each.result(10.0)

    assert directory.source.fetched == ["b.pages"]


def test_the_cause_of_a_failure_is_that_of_all_readers_that_have_waited(directory: Directory) -> None:
    directory.source.is_open.clear()
    directory.source.cause = "the bucket does not answer"
    with directory.remote() as files, ThreadPoolExecutor(2) as readers:
        waiting = [readers.submit(files.fetch, "b.pages") for _ in range(2)]
        directory.source.began.acquire()
        directory.source.is_open.set()
        for each in waiting:
            with pytest.raises(StoreUnreadable, match="the bucket does not answer"):
                each.result(10.0)
        assert files.has("b.pages")


def test_files_that_fail_are_tried_again_and_the_others_do_not_wait_for_them(
    directory: Directory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(remotes, "THREADS", 1)
    monkeypatch.setattr(remotes, "RETRY_S", 0.001)
    directory.source.cause = "the bucket does not answer"
    with directory.remote() as files:
        files.start()
        until(lambda: len(directory.source.fetched) >= 5)
        directory.source.cause = ""
        assert directory.is_complete.wait(10.0)

    assert directory.source.fetched[:3] == NAMES
    assert [record.levelname for record in caplog.records].count("ERROR") == 1


def test_a_file_that_cannot_be_fetched_yet_is_no_failure(
    directory: Directory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(remotes, "RETRY_S", 0.001)
    directory.source.cause, directory.source.failure = "more of the journal is read first", RemoteNotYet
    with directory.remote() as files:
        files.start()
        until(lambda: len(directory.source.fetched) >= 5)
        directory.source.cause = ""
        assert directory.is_complete.wait(10.0)

    assert "ERROR" not in {record.levelname for record in caplog.records}


def test_a_file_that_is_not_needed_any_more_does_not_count(directory: Directory) -> None:
    del directory.source.files["b.pages"]
    with directory.remote() as files:
        files.start()
        assert directory.is_complete.wait(10.0)

    assert directory.local() == ["a.pages", "c.pages"]
    assert directory.needless == ["b.pages"]


def test_a_file_that_cannot_be_fetched_counts_as_remote_all_the_time(directory: Directory) -> None:
    directory.source.cause = "the bucket does not answer"
    found: list[bool] = []

    def look(frame: FrameType, event: str, argument: object) -> Any:
        """Look as another reader between any two operations of the fetch."""
        if frame.f_code.co_filename != remotes.__file__:
            return None
        frame.f_trace_opcodes = True
        found.append(files.has("b.pages"))
        return look

    def fail() -> None:
        sys.settrace(look)
        with pytest.raises(StoreUnreadable):
            files.fetch("b.pages")

    with directory.remote() as files, ThreadPoolExecutor(1) as reader:
        reader.submit(fail).result(10.0)

    assert len(found) > 100
    assert all(found)


def test_a_file_that_is_removed_while_its_fetch_fails_is_no_failure(
    directory: Directory, caplog: pytest.LogCaptureFixture
) -> None:
    directory.source.is_open.clear()
    directory.source.cause = "the folder is gone"
    with directory.remote() as files, ThreadPoolExecutor(1) as reader:
        waiting = reader.submit(files.fetch, "b.pages")
        directory.source.began.acquire()
        files.forget(["b.pages"])
        directory.source.is_open.set()
        waiting.result(10.0)

    assert caplog.records == []


def test_a_file_that_is_removed_while_it_is_fetched_stays_removed(directory: Directory) -> None:
    directory.source.is_open.clear()
    with directory.remote() as files, ThreadPoolExecutor(1) as reader:
        waiting = reader.submit(files.fetch, "b.pages")
        directory.source.began.acquire()
        files.forget(["b.pages", "of others"])
        directory.source.is_open.set()
        waiting.result(10.0)

        assert directory.local() == []
        assert files.names == ["a.pages", "c.pages"]
    assert list((directory.path / LOADING).iterdir()) == []


def test_a_file_that_was_removed_is_not_fetched_by_the_next_process(directory: Directory) -> None:
    with directory.remote() as files:
        files.fetch("a.pages")
        files.forget(["a.pages", "b.pages"])
        (directory.path / "bulk" / "a.pages").unlink()

    with directory.remote() as files:
        assert files.names == ["c.pages"]


def test_a_file_that_is_there_is_not_fetched_by_the_next_process(directory: Directory) -> None:
    with directory.remote() as files:
        files.fetch("a.pages")

    with directory.remote() as files:
        assert files.names == ["b.pages", "c.pages"]


def test_a_directory_whose_last_file_had_arrived_is_complete_at_the_next_start(directory: Directory) -> None:
    with directory.remote() as files:
        for name in NAMES:
            files.fetch(name)
    directory.is_complete.clear()

    with directory.remote() as files:
        files.start()
        assert directory.is_complete.is_set()


def test_the_end_of_the_process_waits_for_no_file(directory: Directory) -> None:
    directory.source.is_open.clear()
    with directory.remote() as files, ThreadPoolExecutor(1) as reader:
        files.start()
        waiting = reader.submit(files.fetch, "c.pages")
        for _ in range(3):
            directory.source.began.acquire()

        files.close()

        with pytest.raises(StoreUnreadable):
            waiting.result(10.0)
        with pytest.raises(StoreUnreadable, match="the broker is stopping"):
            files.fetch("c.pages")
    assert directory.local() == []


def test_a_file_that_cannot_be_written_is_unreadable_for_now(directory: Directory) -> None:
    (directory.path / LOADING).write_bytes(b"in the way")
    with directory.remote() as files:
        with pytest.raises(StoreUnreadable, match="it could not be written"):
            files.fetch("a.pages")
        (directory.path / LOADING).unlink()
        files.fetch("a.pages")

    assert directory.local() == ["a.pages"]
