from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.broker.storage.store.bulk import file as bulk_file
from forebay.broker.storage.store.bulk.file import BulkFile, Unreadable
from forebay.broker.storage.store.bulk.ranges import give_back
from forebay.broker.storage.store.bulk.writer import new_buffer

ITEMS = [(b"a", os.urandom(10_000)), (b"bb", b""), (b"c", os.urandom(70_001))]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / bulk_file.name_of(b"a", b"c")
    bulk_file.write(made, ITEMS, new_buffer())
    return made


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_values_are_read_back_and_keys_that_are_not_there_are_none(path: Path) -> None:
    found = BulkFile(path)

    assert [found.read(key) for key, _ in ITEMS] == [value for _, value in ITEMS]
    assert found.read(b"b") is None
    assert list(found.places) == [b"a", b"bb", b"c"]


def test_values_read_in_order_are_the_same_as_in_any_order(tmp_path: Path) -> None:
    items = [(b"%03d" % number, os.urandom(300_000)) for number in range(80)]
    path = tmp_path / "many.pages"
    bulk_file.write(path, items, new_buffer())

    found = BulkFile(path)

    assert [found.read(key) for key, _ in items] == [value for _, value in items]
    assert [found.read(key) for key, _ in items[::-7]] == [value for _, value in items[::-7]]


def test_the_system_gets_the_place_of_a_prefetched_value(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int, int]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda _, *what: told.append(what))
    found = BulkFile(path)

    found.prefetch(b"c")
    found.prefetch(b"b")

    assert told == [(*found.places[b"c"], os.POSIX_FADV_WILLNEED)]


@pytest.mark.parametrize("at", [0, 4, 8, 20, 40])
def test_a_damaged_table_is_made_good_by_the_other_one(path: Path, at: int) -> None:
    flip(path, at)

    assert BulkFile(path).read(b"c") == ITEMS[2][1]


def test_damage_after_the_values_harms_nothing(path: Path) -> None:
    flip(path, -1)

    assert BulkFile(path).read(b"a") == ITEMS[0][1]


def test_a_file_with_both_tables_damaged_is_unreadable(path: Path) -> None:
    flip(path, 20)
    flip(path, -30)

    with pytest.raises(Unreadable, match="tables"):
        BulkFile(path)


@pytest.mark.parametrize("size", [0, 5, 40, 5_000])
def test_a_file_that_ends_early_gives_what_it_has(path: Path, size: int) -> None:
    os.truncate(path, size)

    try:
        found = BulkFile(path)
    except Unreadable:
        assert size < 60
    else:
        value = found.read(b"a")
        assert value is not None
        assert ITEMS[0][1].startswith(value)
        assert found.read(b"c") == b""


@given(first=st.binary(max_size=40), last=st.binary(max_size=40))
def test_a_name_says_the_first_and_the_last_key(first: bytes, last: bytes) -> None:
    assert bulk_file.keys_in_name(bulk_file.name_of(first, last)) == (first, last)


@pytest.mark.parametrize("name", ["", "x.pages", "00.pages", "00-zz.pages", "00-01", "00-01.pages.new"])
def test_other_names_are_none_of_ours(name: str) -> None:
    assert bulk_file.keys_in_name(name) is None


@pytest.mark.parametrize("where", ["first", "last", "both"])
def test_a_table_in_a_lost_sector_is_made_good_by_the_other_one(
    where: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, size = os.pread, path.stat().st_size

    def pread(handle: int, count: int, at: int) -> bytes:
        if (where != "last" and at < 100) or (where != "first" and at > size - 100):
            raise OSError(errno.EIO, "Input/output error")
        return real(handle, count, at)

    monkeypatch.setattr(os, "pread", pread)

    if where == "both":
        with pytest.raises(OSError, match="Input/output"):
            BulkFile(path)
    else:
        assert BulkFile(path).read(b"c") == ITEMS[2][1]


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.EPERM])
def test_a_file_that_cannot_be_written_is_read_and_its_space_stays(
    code: int, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def opened(name: Path, flags: int) -> int:
        if flags & os.O_RDWR:
            raise OSError(code, os.strerror(code), str(name))
        return real(name, flags)

    monkeypatch.setattr(os, "open", opened)
    found = BulkFile(path)

    assert found.read(b"c") == ITEMS[2][1]
    assert not give_back(found.handle, *found.places[b"c"])
