"""Access to the files of a store: only the account that runs the broker.

The directory protects them: with mode 0700 no other account reaches a file in it, whatever the file's own mode is.
Files are created with mode 0600 all the same, so that a file that is moved or linked elsewhere stays protected.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path
from stat import S_ISLNK
from typing import Final

_log: Final = logging.getLogger(__name__)
DIRECTORY_MODE: Final = 0o700
FILE_MODE: Final = 0o600
_OTHERS: Final = 0o077


def close_to_others(directory: Path, *, is_new: bool = False) -> int:
    """Remove the rights of other accounts from a directory and its content; returns the files changed.

    Changes are logged unless the directory ``is_new``: RocksDB makes its files with the mode that the umask leaves.
    Files that cannot be changed, because another account owns them, are logged and stay as they are.
    """
    changed, refused = 0, 0
    for path in _all_in(directory.resolve()):
        with suppress(FileNotFoundError):
            mode = os.lstat(path).st_mode
            if not mode & _OTHERS or S_ISLNK(mode):
                continue
            try:
                os.chmod(path, mode & ~_OTHERS & 0o7777)
            except OSError:
                refused += 1
            else:
                changed += 1
    if changed and not is_new:
        _log.warning("rights of other accounts were removed from files directory=%s files=%d", directory, changed)
    if refused:
        facts = (directory, refused)
        _log.warning("files of another owner stay open to other accounts directory=%s files=%d", *facts)
    return changed


def _all_in(directory: Path) -> list[str]:
    found = [str(directory)]
    for folder, folders, names in os.walk(directory):
        found += [os.path.join(folder, name) for name in (*folders, *names)]
    return found
