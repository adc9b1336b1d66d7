"""Texts become classes here, so every text met in practice stands here."""

from __future__ import annotations

import errno

import pytest

from forebay.broker.storage.errors import (
    StoreCorrupt,
    StoreError,
    StoreFailed,
    StoreNoSpace,
    StoreShortage,
    StoreUnreadable,
)
from forebay.broker.storage.failures import CODES, Action, Cause, classified
from forebay.broker.storage.store.contract import Family


@pytest.mark.parametrize(
    ("action", "text", "expected"),
    [
        ("write", "IO error: No space left on device: While appending to file: db/000004.log", StoreNoSpace),
        ("sync", "IO error: Disk quota exceeded: While fdatasync: db/000004.log", StoreNoSpace),
        ("open", "IO error: No space left on device: While open a file for appending", StoreNoSpace),
        ("sync", "IO error: While fdatasync: db/000004.log: Input/output error", StoreFailed),
        ("write", "Corruption: block checksum mismatch", StoreFailed),
        ("read", "Corruption: block checksum mismatch: stored = 1, computed = 2", StoreCorrupt),
        ("read", "IO error: No such file or directory: While open a file for random read", StoreCorrupt),
        ("read", "IO error: While pread offset 0 len 4096: Input/output error", StoreUnreadable),
        ("read", "IO error: While pread offset 0 len 4096: Stale file handle", StoreUnreadable),
        (
            "read",
            "IO error: While open a file for random read: db/000009.sst: Too many open files",
            StoreUnreadable,
        ),
        ("read", "IO error: While pread offset 0 len 4096: Cannot allocate memory", StoreUnreadable),
        ("read", "IO error: No space left on device: While open a file", StoreUnreadable),
        ("write", "IO error: While open a file for appending: db/000009.log: Too many open files", StoreFailed),
        ("open", "Corruption: CURRENT file does not end with newline", StoreCorrupt),
        ("open", "Not implemented: File uses a future feature not supported in this version", StoreCorrupt),
        ("open", "IO error: No such file or directory: While opening db/MANIFEST-000009", StoreCorrupt),
        ("open", "IO error: lock hold by current process: db/LOCK: No locks available", StoreFailed),
    ],
)
def test_the_text_of_rocksdb_decides(action: Action, text: str, expected: type[StoreError]) -> None:
    with pytest.raises(StoreError) as caught, classified(action, Family.INDEX):
        raise Exception(text)

    assert type(caught.value) is expected
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("code", "expected"),
    [(errno.ENOSPC, StoreNoSpace), (errno.EDQUOT, StoreNoSpace), (errno.EACCES, StoreFailed)],
)
def test_the_number_of_the_system_decides(code: int, expected: type[StoreError]) -> None:
    with pytest.raises(StoreError) as caught, classified("open"):
        raise OSError(code, "text")

    assert type(caught.value) is expected


@pytest.mark.parametrize("code", sorted({*errno.errorcode} - {errno.ENOSPC, errno.EDQUOT}))
def test_no_error_number_at_a_read_is_taken_for_damage(code: int) -> None:
    with pytest.raises(StoreUnreadable), classified("read", Family.BULK):
        raise OSError(code, "text")


@pytest.mark.parametrize("code", sorted(code for code, cause in CODES.items() if cause is Cause.SHORTAGE))
def test_a_shortage_at_an_ingest_is_one_that_may_pass_and_at_a_sync_it_is_not(code: int) -> None:
    with pytest.raises(StoreShortage), classified("ingest"):
        raise OSError(code, "text")
    with pytest.raises(StoreFailed), classified("sync"):
        raise OSError(code, "text")


def test_mistakes_of_the_caller_pass() -> None:
    with pytest.raises(TypeError), classified("write"):
        raise TypeError
