"""Release of a part of a file: returns its space to the file system.

Python has no call for it, so it goes to the C library. Where there is none, or the file system does not know it,
nothing happens: space comes back with the whole file.
"""

from __future__ import annotations

import ctypes
import os
import sys
from errno import ENOSYS, EOPNOTSUPP
from typing import Any, Final

_KEEP_SIZE_AND_PUNCH_HOLE: Final = 1 | 2
"""``FALLOC_FL_…`` of the same."""


def _found() -> Any:
    function = getattr(ctypes.CDLL(None, use_errno=True), "fallocate", None) if sys.platform == "linux" else None
    if function is not None:
        function.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    return function


_fallocate: Final = _found()


def give_back(handle: int, first: int, size: int) -> bool:
    """Give the space of a range back; it reads as zeros then, and the file keeps its size.

    Says whether it could. Raises ``OSError``.
    """
    if _fallocate is None:
        return False
    if _fallocate(handle, _KEEP_SIZE_AND_PUNCH_HOLE, first, size) == 0:
        return True
    code = ctypes.get_errno()
    if code in {EOPNOTSUPP, ENOSYS}:
        return False
    raise OSError(code, os.strerror(code))
