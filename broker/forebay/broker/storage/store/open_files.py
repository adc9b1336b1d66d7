"""Limit of open files of the process.

A store that reaches the limit in operation cannot write or reopen files. So it is checked once, before anything is
opened.
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from typing import Final

from forebay.broker.storage.errors import StoreFilesLimited
from forebay.broker.storage.failures import Cause, cause_of

_RAISED_TO_MAX: Final = 65_536
"""Limit to request where the hard limit is higher or missing: some systems refuse more."""


def ensure_open_files(needed: int) -> int:
    """Make sure that the process may open ``needed`` files, and return how many it may.

    Raises the soft limit towards the hard one where it is too low. Raises ``StoreFilesLimited`` where
    the hard limit is too low as well.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _allows(soft, needed):
        return soft
    if not _allows(hard, needed):
        raise StoreFilesLimited(needed=needed, allowed=hard)
    raised = max(needed, _RAISED_TO_MAX if hard == resource.RLIM_INFINITY else min(hard, _RAISED_TO_MAX))
    resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    return raised


def raise_open_files(wanted: int) -> int:
    """Raise the soft limit of open files towards the hard one for ``wanted`` files; returns the limit.

    A system that refuses leaves the limit as it is. Never lowers it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _allows(soft, wanted):
        return wanted if soft == resource.RLIM_INFINITY else soft
    raised = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    except (OSError, ValueError):
        return soft
    return raised


class SpareFiles:
    """Spare descriptors, so that the store can open a file when the process has no other left.

    Used by one thread at a time.
    """

    def __init__(self, count: int) -> None:
        """Reserve ``count`` descriptors, or as many as are available."""
        self._count = count
        self._held: list[int] = []
        self.restore()

    def lend(self) -> None:
        """Release the descriptors for the next open."""
        while self._held:
            os.close(self._held.pop())

    def restore(self) -> None:
        """Reserve the released descriptors again, as far as there are any."""
        with suppress(OSError):
            while len(self._held) < self._count:
                self._held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    def has_room(self) -> bool:
        """Return whether the process can open a file now; if not, the spare descriptors are released at once."""
        try:
            os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            if cause_of(error) is not Cause.SHORTAGE:
                raise
            self.lend()
            return False
        return True

    close = lend


def _allows(limit: int, needed: int) -> bool:
    return limit == resource.RLIM_INFINITY or limit >= needed
