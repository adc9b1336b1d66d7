"""Targets of backups by the scheme of their address."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from forebay.broker.storage.backup.directory_target import DirectoryTarget
from forebay.broker.storage.backup.errors import BackupError
from forebay.broker.storage.backup.target import Target


def open_target(text: str) -> Target:
    """Return the target of a path or an address: `/PATH`, `file:///PATH`.

    Raises ``BackupError``.
    """
    if not text:
        raise BackupError("no target is named: pass a directory")
    scheme = urlsplit(text).scheme if "://" in text else "file"
    if scheme == "file":
        return DirectoryTarget(Path(text.removeprefix("file://")))
    raise BackupError(f"target {text!r}: the scheme is {scheme!r}; file is allowed")
