"""Which error a failure is: the one place that reads what RocksDB and the system say.

rocksdict raises bare ``Exception`` with RocksDB's text, so the text has to be read.
"""

from __future__ import annotations

from contextlib import contextmanager
from errno import EDQUOT, EIO, ENOSPC
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from holdfast.broker.storage.errors import StoreCorrupt, StoreError, StoreFailed, StoreNoSpace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast.broker.storage.contract import Family

Action: TypeAlias = Literal["open", "ingest", "write", "sync", "read", "compact", "close"]

_NO_SPACE: Final = ("No space left on device", "Disk quota exceeded")
_DAMAGE: Final = ("Corruption", "Not implemented: File uses a future feature")
"""How the text begins; a flipped bit can make a table look like one of a later version."""

_MISSING: Final = "IO error: No such file or directory"
"""Where a database is opened: a file that others name is not there."""

_NOT_DAMAGE: Final = ("Too many open files", "Cannot allocate memory", "Permission denied", *_NO_SPACE)
"""Reads that fail for these reasons say nothing of the bytes."""


@contextmanager
def classified(
    action: Action, family: Family | None = None, *, key: bytes | None = None, directory: Path | None = None
) -> Iterator[None]:
    """Raise what fails inside as ``StoreError``; mistakes of the caller (``TypeError``, ...) pass.

    What is known of the place is given: the ``family`` and ``key`` that are read, the ``directory`` that is opened.
    """
    try:
        yield
    except OSError as error:
        if action == "read" and error.errno == EIO:
            raise StoreCorrupt(family, str(error), key=key, directory=directory) from error
        kind = StoreNoSpace if error.errno in {ENOSPC, EDQUOT} else StoreFailed
        raise kind(action, str(error)) from error
    except Exception as error:  # it has no class of its own, see above
        if type(error) is not Exception:
            raise
        raise _from_text(" ".join(str(error).split()), action, family, key, directory) from error


def _from_text(
    text: str, action: Action, family: Family | None, key: bytes | None, directory: Path | None
) -> StoreError:
    if any(reason in text for reason in _NO_SPACE):
        return StoreNoSpace(action, text)
    unreadable = text.startswith("IO error") and not any(reason in text for reason in _NOT_DAMAGE)
    damaged = text.startswith(_DAMAGE) or (action == "open" and text.startswith(_MISSING))
    if (action in {"read", "open"} and damaged) or (action == "read" and unreadable):
        return StoreCorrupt(family, text, key=key, directory=directory)
    return StoreFailed(action, text)
