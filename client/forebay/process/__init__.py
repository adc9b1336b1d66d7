"""What a process sets for itself that moves pages in bulk: a broker, a deliverer, a consumer of your own.

Pages of 1 MiB come and go all the time. Left alone, the C library gives their memory back to the system and asks for it
again, page fault by page fault, which takes longer than copying them. And threads that wait for Python's lock ask for
it after 5 ms: as long as several pages take to be read or written.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_log: Final = logging.getLogger(__name__)

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -2, -3, -8
"""Names of ``mallopt`` in the C library's ``malloc.h``."""

_MALLOC: Final = {_TRIM_THRESHOLD: 256 << 20, _TOP_PAD: 16 << 20, _MMAP_THRESHOLD: 32 << 20, _ARENA_MAX: 1}
"""Memory that is kept when it is free, taken at a time, taken apart from the rest; places that it is taken from."""

_SWITCH_S: Final = 0.0005


def tune() -> None:
    """Set up this process, for as long as it lives. Once is enough, and it may be called again.

    Up to 256 MiB of memory that is free stay with the process. Memory is left alone where the C library is not that of
    Linux, or somebody has set it up by environment (``MALLOC_…``, ``GLIBC_TUNABLES``).
    """
    sys.setswitchinterval(_SWITCH_S)
    if any(name == "GLIBC_TUNABLES" or name.startswith("MALLOC_") for name in os.environ):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None:
        return
    for name, value in _MALLOC.items():
        if not mallopt(name, value):
            _log.debug("malloc did not take a setting name=%d value=%d", name, value)


@contextmanager
def making_what_stays() -> Iterator[None]:
    """Switch garbage collection off while a great many objects are made that stay.

    Left on, it goes over all of them again and again: a start of 100,000 lanes takes four times as long.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def keep_what_stays() -> None:
    """Take everything that there is now out of garbage collection, until `let_go_of_what_stayed`.

    A collection of millions of objects that stay would keep everybody waiting for a second.
    """
    gc.collect()
    gc.freeze()


def let_go_of_what_stayed() -> None:
    """Let garbage collection look at everything again: some of what was to stay is garbage now."""
    gc.unfreeze()


def give_memory_back() -> None:
    """Give free memory back to the system now, where the C library can: `tune` lets it keep what is free."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
