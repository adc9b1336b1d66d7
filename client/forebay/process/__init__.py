"""Process settings for bulk transfer of pages: a broker, a deliverer, or an own consumer.

Pages of 1 MiB are allocated and freed all the time. By default the C library returns their memory to the system and
requests it again, page fault by page fault, which takes longer than copying them. Threads that wait for Python's lock
request it after 5 ms, which is as long as several pages take to be read or written.
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
"""Retained free memory, allocation step, threshold of separate mappings, and number of arenas."""

_SWITCH_S: Final = 0.0005


def tune() -> None:
    """Apply the settings to this process permanently. Idempotent.

    Up to 256 MiB of free memory stay with the process. Memory settings are skipped if the C library is not that of
    Linux, or if the environment sets them (``MALLOC_…``, ``GLIBC_TUNABLES``).
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
def gc_paused() -> Iterator[None]:
    """Disable garbage collection while many long-lived objects are created.

    Otherwise the collector traverses all of them repeatedly: a start of 100,000 lanes takes four times as long.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def freeze_objects() -> None:
    """Exclude all current objects from garbage collection, until `unfreeze_objects`.

    A collection of millions of long-lived objects would pause the process for a second, and so would one before they
    are excluded: call it within `gc_paused`, and what little garbage there is stays.
    """
    gc.freeze()


def unfreeze_objects() -> None:
    """Include all objects in garbage collection again, because some of the excluded ones are garbage now."""
    gc.unfreeze()


def release_free_memory() -> None:
    """Return free memory to the system now, if the C library supports it; `tune` retains it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
