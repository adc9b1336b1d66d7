"""``RocksStore``: the contract, and what only a disk and a process can show."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from rocksdict import Rdict

from forebay.broker.storage.errors import StoreClosed, StoreCorrupt, StoreFailed, StoreLocked, StoreNoSpace
from forebay.broker.storage.store.contract import DeleteRange, Family, Operation, Put, WriteStall
from forebay.broker.storage.store.rocks.store import RocksStore
from tests.support.storage.conformance import Change, StoreConformance, entries, noise, page_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MIB = 1024 * 1024


pytestmark = pytest.mark.slow  # each opens a RocksDB


class RocksHost:
    """Opens a ``RocksStore`` again, and breaks it from below."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store = RocksStore(directory)

    def reopen(self) -> RocksStore:
        self.store.close()
        self.store = RocksStore(self.directory)
        return self.store

    def break_next(self, change: Change) -> None:
        match change:
            case "ingest":
                (self.directory / "bulk").rename(self.directory / "elsewhere")
            case "write":
                self.replace_log("/dev/full")
            case "sync":
                self.replace_log("/dev/null")

    def replace_log(self, device: str) -> None:
        """Put a device in the place of the open log: full fails to write, null fails to sync."""
        handles = "/proc/self/fd"
        if not os.path.isdir(handles):
            pytest.skip("needs /proc to find the open log")
        logs = []
        for handle in os.listdir(handles):
            try:
                target = os.readlink(f"{handles}/{handle}")
            except FileNotFoundError:
                continue  # the handle of the listing itself
            if target.startswith(str(self.directory)) and target.endswith(".log"):
                logs.append(int(handle))
        replacement = os.open(device, os.O_WRONLY)
        for log in logs:
            os.dup2(replacement, log, inheritable=False)
        os.close(replacement)
        assert logs

    def damage(self, family: Family, key: bytes) -> None:
        """Flip one bit in the middle of the value, wherever it stands."""
        (value,) = self.store.get_many(family, [key])
        assert value is not None
        self.store.close()
        damaged = 0
        for path in [*(self.directory / "db").glob("*.sst"), *(self.directory / "bulk").iterdir()]:
            content = bytearray(path.read_bytes())
            position = content.find(value)
            if position >= 0:
                content[position + len(value) // 2] ^= 1
                path.write_bytes(content)
                damaged += 1
        assert damaged == 1
        self.store = RocksStore(self.directory)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[RocksHost]:
    opened = RocksHost(tmp_path / "store")
    yield opened
    opened.store.close()


class TestRocksStore(StoreConformance):
    @pytest.fixture
    def host(self, tmp_path: Path) -> Iterator[RocksHost]:
        opened = RocksHost(tmp_path / "store")
        yield opened
        opened.store.close()


# --- other processes ------------------------------------------------------------------------------

OWNER = """
import sys, time
from pathlib import Path
from forebay.broker.storage.store.contract import Family, Put
from forebay.broker.storage.store.rocks.store import RocksStore
store = RocksStore(Path(sys.argv[1]))
store.ingest([(b"page", b"x" * 100_000)])
store.write([Put(Family.INDEX, b"synced", b"1")])
store.sync()
store.write([Put(Family.INDEX, b"unsynced", b"2")])
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has written to ``store`` and still owns it."""
    command = [sys.executable, "-c", OWNER, str(tmp_path / "store")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def test_a_store_owned_by_another_process_is_refused_with_its_pid(owner: subprocess.Popen[str], tmp_path: Path) -> None:
    with pytest.raises(StoreLocked) as caught:
        RocksStore(tmp_path / "store")

    assert (caught.value.directory, caught.value.pid) == (tmp_path / "store", owner.pid)
    assert str(owner.pid) in str(caught.value)


def test_a_killed_owner_leaves_its_store_with_all_it_wrote(owner: subprocess.Popen[str], tmp_path: Path) -> None:
    owner.send_signal(signal.SIGKILL)
    owner.wait()

    store = RocksStore(tmp_path / "store")

    assert store.get_many(Family.BULK, [b"page"]) == [b"x" * 100_000]
    assert entries(store, Family.INDEX) == [(b"synced", b"1"), (b"unsynced", b"2")]
    store.close()


def test_a_store_is_refused_a_second_time_in_the_same_process(host: RocksHost) -> None:
    with pytest.raises(StoreLocked) as caught:
        RocksStore(host.directory)

    assert caught.value.pid == os.getpid()


# --- files ----------------------------------------------------------------------------------------


def files(host: RocksHost) -> dict[str, tuple[int, int]]:
    """The inode and the time of change of each file of bulk."""
    found = {path.name: path.stat() for path in (host.directory / "bulk").iterdir()}
    return {name: (stat.st_ino, stat.st_mtime_ns) for name, stat in found.items()}


def fill(store: RocksStore, partition: int, parts: range) -> None:
    for file in parts:
        first = file * 16
        store.ingest([(page_key(partition, number), os.urandom(MIB)) for number in range(first, first + 16)])


@pytest.mark.parametrize("synced_first", [False, True])
def test_the_space_of_a_partition_is_released_and_its_neighbours_are_not_touched(
    host: RocksHost, synced_first: bool
) -> None:
    for partition in (0, 1, 2):
        fill(host.store, partition, range(2))
    full, before = host.store.live_bytes(), files(host)
    # The range ends where the next partition begins, at a key that is there.
    first, end = page_key(1, 0), page_key(2, 0)
    host.store.write([DeleteRange(Family.BULK, first, end)])
    if synced_first:
        host.store.sync()

    host.store.compact(Family.BULK, first, end)

    assert full - host.store.live_bytes() > 31 * MIB
    after = files(host)
    assert len(before) == 6
    assert len(after) == 4
    assert after.items() <= before.items()
    kept = [page_key(partition, number) for partition in (0, 2) for number in range(32)]
    assert all(value is not None for value in host.store.get_many(Family.BULK, kept))


def test_the_space_of_what_is_deleted_within_a_file_is_released_and_nothing_is_rewritten(host: RocksHost) -> None:
    fill(host.store, 1, range(3))
    before, full = files(host), host.store.live_bytes()
    host.store.write([DeleteRange(Family.BULK, page_key(1, 0), page_key(1, 20))])
    host.store.sync()

    host.store.compact(Family.BULK, page_key(1, 0), page_key(1, 20))

    after = files(host)
    assert len(before.keys() & after.keys()) == 2
    assert after.keys() <= before.keys()
    assert full - host.store.live_bytes() > 19.9 * MIB
    assert [key for key, _ in entries(host.reopen(), Family.BULK)] == [page_key(1, number) for number in range(20, 48)]


def test_bulk_is_left_alone_by_what_small_pages_do(host: RocksHost) -> None:
    fill(host.store, 1, range(2))
    before = files(host)
    for round_ in range(8):
        operations: list[Operation] = [
            Put(Family.SMALL, page_key(1, round_ * 100 + number), os.urandom(40_000)) for number in range(100)
        ]
        host.store.write([*operations, Put(Family.INDEX, page_key(1, round_), b"")])
    host.store.compact(Family.SMALL, page_key(1, 0), page_key(2, 0))

    assert before.items() <= files(host).items()


def test_the_highest_keys_are_those_of_keys_and_not_of_deletions(host: RocksHost) -> None:
    host.store.ingest([(page_key(1, 1), b"x")])
    host.store.write([DeleteRange(Family.BULK, page_key(1, 1), page_key(7, 7))])
    store = host.reopen()  # the deletion gets a table of its own, up to its end

    assert store.highest_keys() == [page_key(1, 1)]


# --- failures -------------------------------------------------------------------------------------


def test_a_full_disk_has_an_error_of_its_own(host: RocksHost) -> None:
    host.replace_log("/dev/full")

    with pytest.raises(StoreNoSpace):
        host.store.write([Put(Family.META, b"a", b"1")])


def test_a_write_that_failed_never_shows(host: RocksHost) -> None:
    host.replace_log("/dev/full")
    with pytest.raises(StoreFailed):
        host.store.write([Put(Family.META, b"a", b"1"), Put(Family.INDEX, b"b", b"1")])

    assert entries(host.store, Family.META) == []
    assert entries(host.reopen(), Family.INDEX) == []


def test_keys_and_values_that_are_not_bytes_are_mistakes_and_fence_nothing(host: RocksHost) -> None:
    with pytest.raises((KeyError, ValueError, TypeError)):
        host.store.write([Put(Family.META, "text", b"1")])  # type: ignore[arg-type] # the mistake under test

    host.store.ingest([(b"a", b"1")])


def test_a_damaged_page_does_not_keep_the_space_of_others(host: RocksHost) -> None:
    host.store.ingest([(page_key(1, number), noise(50_000 + number)) for number in range(4)])
    host.damage(Family.BULK, page_key(1, 2))
    full = host.store.live_bytes()

    for end in (2, 4):
        host.store.write([DeleteRange(Family.BULK, page_key(1, 0), page_key(1, end))])
        host.store.sync()
        host.store.compact(Family.BULK, page_key(1, 0), page_key(1, end))

    assert full - host.store.live_bytes() > 150_000
    host.store.write([Put(Family.META, b"a", b"1")])


def test_a_compaction_that_fails_is_not_taken_for_done(host: RocksHost) -> None:
    host.store.write([Put(Family.INDEX, page_key(1, number), noise(50_000 + number)) for number in range(4)])
    host.damage(Family.INDEX, page_key(1, 3))
    host.store.write([DeleteRange(Family.INDEX, page_key(1, 0), page_key(1, 2))])
    host.store.sync()

    with pytest.raises(StoreFailed) as caught:
        host.store.compact(Family.INDEX, page_key(1, 0), page_key(1, 2))

    assert caught.value.action == "compact"
    with pytest.raises(StoreFailed, match="Corruption"):
        host.store.write([Put(Family.META, b"a", b"1")])


def test_a_table_that_is_missing_is_damage(host: RocksHost) -> None:
    host.store.write([Put(Family.INDEX, b"a", b"1" * 10_000)])
    host.store.close()
    for path in (host.directory / "db").glob("*.sst"):
        path.unlink()

    with pytest.raises(StoreCorrupt):
        RocksStore(host.directory).get_many(Family.INDEX, [b"a"])


def test_a_file_of_bulk_that_is_missing_costs_its_pages_alone(
    host: RocksHost, caplog: pytest.LogCaptureFixture
) -> None:
    host.store.ingest([(b"a", b"1")])
    host.store.ingest([(b"b", b"2")])
    next(path for path in (host.directory / "bulk").iterdir() if path.name.startswith(b"a".hex())).unlink()

    assert host.store.get_many(Family.BULK, [b"a", b"b"]) == [None, b"2"]
    assert "bulk file is missing" in caplog.text
    host.store.close()
    host.store = RocksStore(host.directory)
    assert host.store.get_many(Family.BULK, [b"a", b"b"]) == [None, b"2"]


def test_tables_without_a_current_file_are_not_taken_for_a_new_store(host: RocksHost) -> None:
    host.store.write([Put(Family.INDEX, b"a", b"1" * 10_000)])
    host.store.close()
    before = files(host)
    (host.directory / "db" / "CURRENT").unlink()

    with pytest.raises(StoreCorrupt, match="CURRENT"):
        RocksStore(host.directory)

    assert files(host) == before


def test_a_store_that_did_not_open_can_be_opened_once_it_is_repaired(host: RocksHost) -> None:
    host.store.close()
    current = host.directory / "db" / "CURRENT"
    good = current.read_bytes()
    current.write_bytes(b"MANIFEST-000001")
    with pytest.raises(StoreCorrupt):
        RocksStore(host.directory)
    current.write_bytes(good)

    RocksStore(host.directory).close()


# --- threads --------------------------------------------------------------------------------------


def test_an_open_that_fails_late_leaves_nothing_open_while_its_error_is_known(
    host: RocksHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StoreCorrupt(Family.BULK, "the deletions are damaged")

    host.store.close()
    before = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patch:
        patch.setattr("forebay.broker.storage.store.rocks.store.stored_deletions", fail)
        with pytest.raises(StoreCorrupt, match="the deletions are damaged") as failure:
            RocksStore(host.directory)

    assert failure.value.__traceback__ is not None, "it refers to the store that failed"
    assert len(os.listdir("/proc/self/fd")) == before
    host.store = RocksStore(host.directory)


def test_reads_and_compaction_run_beside_writes_and_a_close_waits_for_them(host: RocksHost) -> None:
    store = host.store
    store.ingest([(page_key(1, number), b"x" * 50_000) for number in range(64)])
    unexpected: list[Exception] = []

    def until_closed(step: int) -> None:
        try:
            while True:
                if step == 0:
                    store.compact(Family.INDEX, page_key(1, 0), page_key(2, 0))
                elif step == 1:
                    store.scan(Family.INDEX, page_key(1, 0), page_key(2, 0), 100)
                else:
                    assert None not in store.get_many(Family.BULK, [page_key(1, number) for number in range(64)])
        except StoreClosed:
            pass
        except Exception as error:  # noqa: BLE001 - whatever it is, the test tells it
            unexpected.append(error)

    threads = [threading.Thread(target=until_closed, args=(step,)) for step in range(4)]
    for thread in threads:
        thread.start()
    for number in range(300):
        store.write([Put(Family.INDEX, page_key(1, number), b"")])
        store.sync()
    store.close()
    for thread in threads:
        thread.join()

    assert unexpected == []
    assert len(entries(host.reopen(), Family.INDEX)) == 300


def test_a_write_while_the_process_has_no_descriptor_left_does_not_fence(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "data")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))  # spare descriptors above the limit would be of no use
    taken: list[int] = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, highest + 20), hard))
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        store.write([Put(Family.META, b"k", b"v")])
        store.sync()
        store.ingest([(b"a", b"bulk")])
    finally:
        for handle in taken:
            os.close(handle)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    store.write([Put(Family.META, b"l", b"v")])
    store.sync()
    assert store.get_many(Family.META, [b"k", b"l"]) == [b"v", b"v"]
    assert store.get_many(Family.BULK, [b"a"]) == [b"bulk"]
    store.close()


def slow_from(family: Rdict, tables: int) -> None:
    """Let RocksDB slow writes from a number of tables on, and compact none of so few."""
    family.set_options(
        {
            "level0_file_num_compaction_trigger": "100",
            "level0_slowdown_writes_trigger": str(tables),
            "level0_stop_writes_trigger": "200",
        }
    )


def test_the_time_for_which_writes_were_held_back_is_known_after_the_stall_too(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "data")
    meta = store._families[Family.META]
    try:
        slow_from(meta, 2)
        for number in range(3):
            store.write([Put(Family.META, b"%d" % number, b"v")])
            meta.flush(True)
        during = store.write_stall()
        for number in range(200):  # RocksDB slows a writer that is faster than 16 MiB/s
            store.write([Put(Family.META, b"%d" % number, b"v" * 200_000)])
            if store.write_stall_s():
                break
        slow_from(meta, 50)

        assert (during, store.write_stall()) == (WriteStall.SLOWED, WriteStall.NONE)
        assert 0.001 <= (store.write_stall_s() or 0.0) < 60.0
    finally:
        del meta
        store.close()
