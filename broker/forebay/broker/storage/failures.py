"""Classification of failures: the only code that parses the error texts of RocksDB and the system.

rocksdict raises bare ``Exception`` with RocksDB's text, so the text has to be parsed. The class of an error follows
from the cause of the failure and the action:

| cause | read | ingest | write, sync, compact, close | open |
|---|---|---|---|---|
| damage | `StoreCorrupt` | `StoreFailed` | `StoreFailed` | `StoreCorrupt` |
| missing file of RocksDB | `StoreCorrupt` | `StoreFailed` | `StoreFailed` | `StoreCorrupt` |
| no space | `StoreUnreadable` | `StoreNoSpace` | `StoreNoSpace` | `StoreNoSpace` |
| temporary shortage | `StoreUnreadable` | `StoreShortage` | `StoreFailed` | `StoreFailed` |
| any other error of the system | `StoreUnreadable` | `StoreFailed` | `StoreFailed` | `StoreFailed` |

So only bytes that were read and fail their checksum are damage. A shortage at a write of RocksDB still fences, because
its handle is unusable after a partial write. An ingest begins with a file of its own, which can be written again.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto
from pathlib import Path
from typing import Final, Literal, TypeAlias

from forebay.broker.storage.errors import (
    StoreCorrupt,
    StoreError,
    StoreFailed,
    StoreNoSpace,
    StoreShortage,
    StoreUnreadable,
)
from forebay.broker.storage.store.contract import Family

Action: TypeAlias = Literal["open", "ingest", "write", "sync", "read", "compact", "flush", "checkpoint", "close"]


class Cause(Enum):
    """Kinds of failure that are handled differently."""

    DAMAGE = auto()
    MISSING = auto()
    NO_SPACE = auto()
    SHORTAGE = auto()
    SYSTEM = auto()
    UNKNOWN = auto()


CODES: Final = {
    errno.ENOSPC: Cause.NO_SPACE,
    errno.EDQUOT: Cause.NO_SPACE,
    errno.EMFILE: Cause.SHORTAGE,
    errno.ENFILE: Cause.SHORTAGE,
    errno.ENOMEM: Cause.SHORTAGE,
    errno.EINTR: Cause.SHORTAGE,
    errno.EAGAIN: Cause.SHORTAGE,
    errno.ENOBUFS: Cause.SHORTAGE,
}
"""Causes by error number; every other number is ``SYSTEM``."""

LOST_SECTOR: Final = frozenset({errno.EIO, errno.EBADMSG, errno.EUCLEAN, errno.EREMOTEIO, errno.ENODATA, errno.EILSEQ})
"""Error numbers of a read of a part of the disk that is lost."""

_LOST_SECTOR_TEXTS: Final = tuple(map(os.strerror, sorted(LOST_SECTOR)))

_TEXTS: Final = (
    ("No space left on device", Cause.NO_SPACE),
    ("Disk quota exceeded", Cause.NO_SPACE),
    ("Too many open files", Cause.SHORTAGE),
    ("Cannot allocate memory", Cause.SHORTAGE),
    ("Interrupted system call", Cause.SHORTAGE),
    ("Resource temporarily unavailable", Cause.SHORTAGE),
)
"""Texts of the system within RocksDB's text, at any position, and their causes."""

_BEGINNINGS: Final = (
    ("Corruption", Cause.DAMAGE),
    ("Not implemented: File uses a future feature", Cause.DAMAGE),  # a flipped bit can make a table look like that
    ("IO error: No such file or directory", Cause.MISSING),
    ("IO error", Cause.SYSTEM),
)
"""Prefixes of RocksDB's text, where none of the above is in it, and their causes."""


def cause_of(error: Exception) -> Cause:
    """Return the cause of a failure of the system or of RocksDB."""
    if isinstance(error, OSError):
        return CODES.get(error.errno or 0, Cause.SYSTEM)
    text = _text(error)
    found = next((cause for part, cause in _TEXTS if part in text), None)
    return found or next((cause for begin, cause in _BEGINNINGS if text.startswith(begin)), Cause.UNKNOWN)


def is_lost_sector(error: BaseException | None) -> bool:
    """Return True for a part of the disk that is lost, False for a shortage or a missing permission."""
    if isinstance(error, OSError):
        return error.errno in LOST_SECTOR
    return error is not None and any(text in str(error) for text in _LOST_SECTOR_TEXTS)


@contextmanager
def classified(
    action: Action, family: Family | None = None, *, key: bytes | None = None, directory: Path | None = None
) -> Iterator[None]:
    """Raise what fails inside as ``StoreError``; mistakes of the caller (``TypeError``, ...) pass.

    The arguments are the known place: the ``family`` and ``key`` of a read, the ``directory`` of an open.
    """
    try:
        yield
    except OSError as error:
        raise _store_error(cause_of(error), str(error), action, family, key, directory) from error
    except Exception as error:  # it has no class of its own, see above
        if type(error) is not Exception:
            raise
        raise _store_error(cause_of(error), _text(error), action, family, key, directory) from error


def _text(error: Exception) -> str:
    return " ".join(str(error).split())


def _store_error(
    cause: Cause, text: str, action: Action, family: Family | None, key: bytes | None, directory: Path | None
) -> StoreError:
    if action in {"read", "open"} and cause in {Cause.DAMAGE, Cause.MISSING}:
        return StoreCorrupt(family, text, key=key, directory=directory)
    if action == "read" and cause is not Cause.UNKNOWN:
        return StoreUnreadable(text, family=family)
    if cause is Cause.NO_SPACE:
        return StoreNoSpace(action, text)
    if action == "ingest" and cause is Cause.SHORTAGE:
        return StoreShortage(action, text)
    return StoreFailed(action, text)
