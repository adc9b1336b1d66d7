"""Hole punching: returns the space of a part of a file to the file system.

Python has no function for it, so it calls the C library. Without one, or without support by the file system, it has no
effect, and the space is released with the whole file.
"""

from __future__ import annotations

import ctypes
import os
import sys
from errno import EBADF, ENOSYS, EOPNOTSUPP
from typing import Any, Final

_KEEP_SIZE_AND_PUNCH_HOLE: Final = 1 | 2
"""``FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE``."""


def _found() -> Any:
    function = getattr(ctypes.CDLL(None, use_errno=True), "fallocate", None) if sys.platform == "linux" else None
    if function is not None:
        function.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    return function


_fallocate: Final = _found()


def give_back(handle: int, first: int, size: int) -> bool:
    """Punch a hole: the range reads as zeros then, and the file keeps its size.

    Returns False if that is not supported, or the file cannot be written. Raises ``OSError``.
    """
    if _fallocate is None:
        return False
    if _fallocate(handle, _KEEP_SIZE_AND_PUNCH_HOLE, first, size) == 0:
        return True
    code = ctypes.get_errno()
    if code in {EOPNOTSUPP, ENOSYS, EBADF}:  # the last one for a handle that only reads
        return False
    raise OSError(code, os.strerror(code))
