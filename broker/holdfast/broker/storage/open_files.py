"""How many files the process may have open.

A store that meets the limit while it works fails to ingest, or to open again. So it is looked at
once, before anything is opened.
"""

from __future__ import annotations

import resource
from typing import Final

from holdfast.broker.storage.errors import StoreFilesLimited

_RAISED_TO_MAX: Final = 65_536
"""Where the hard limit is higher or none, this much is taken: some systems refuse more."""


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
    """Raise the soft limit of open files towards the hard one until ``wanted`` fit; returns what is allowed.

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


def _allows(limit: int, needed: int) -> bool:
    return limit == resource.RLIM_INFINITY or limit >= needed
