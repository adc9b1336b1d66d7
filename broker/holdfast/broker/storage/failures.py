"""Which error a failure is: the one place that reads what RocksDB and the system say.

rocksdict raises bare ``Exception`` with RocksDB's text, so the text has to be read.
"""

from __future__ import annotations

from contextlib import contextmanager
from errno import EDQUOT, ENOSPC
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from holdfast.broker.storage.errors import StoreCorrupt, StoreError, StoreFailed, StoreNoSpace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.broker.storage.contract import Family

Action: TypeAlias = Literal["open", "ingest", "write", "sync", "read", "compact", "close"]

_NO_SPACE: Final = ("No space left on device", "Disk quota exceeded")
_NOT_DAMAGE: Final = ("Too many open files", "Cannot allocate memory", "Permission denied", *_NO_SPACE)
"""Reads that fail for these reasons say nothing of the bytes."""


@contextmanager
def classified(action: Action, family: Family | None = None, *, key: bytes | None = None) -> Iterator[None]:
    """Raise what fails inside as ``StoreError``; mistakes of the caller (``TypeError``, ...) pass."""
    try:
        yield
    except OSError as error:
        kind = StoreNoSpace if error.errno in {ENOSPC, EDQUOT} else StoreFailed
        raise kind(action, str(error)) from error
    except Exception as error:  # it has no class of its own, see above
        if type(error) is not Exception:
            raise
        raise _from_text(str(error), action, family, key) from error


def _from_text(text: str, action: Action, family: Family | None, key: bytes | None) -> StoreError:
    if any(reason in text for reason in _NO_SPACE):
        return StoreNoSpace(action, text)
    unreadable = text.startswith("IO error") and not any(reason in text for reason in _NOT_DAMAGE)
    if (action in {"read", "open"} and text.startswith("Corruption")) or (action == "read" and unreadable):
        return StoreCorrupt(family, text, key=key)
    return StoreFailed(action, text)
