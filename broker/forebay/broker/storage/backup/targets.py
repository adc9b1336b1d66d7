"""Targets of backups by the scheme of their address."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from forebay.broker.storage.backup.directory_target import DirectoryTarget
from forebay.broker.storage.backup.errors import BackupError
from forebay.broker.storage.backup.target import Target

OBJECT_SCHEMES: Final = ("s3", "gs", "az")
"""Schemes of object stores, whose package is an extra."""


def open_target(text: str, *, creates: bool = True) -> Target:
    """Return the target of a path or an address: `/PATH`, `file:///PATH`, `s3://…`, `gs://…`, `az://…`.

    A directory that does not exist is created by the first ``put``, unless ``creates`` is False: then it must exist.
    Raises ``BackupError``.
    """
    if not text:
        raise BackupError("no target is named: pass a directory, or an address such as s3://BUCKET/PREFIX")
    scheme = urlsplit(text).scheme if "://" in text else "file"
    if scheme == "file":
        target = DirectoryTarget(Path(text.removeprefix("file://")))
        if not creates:
            target.check_exists()
        return target
    if scheme in OBJECT_SCHEMES:
        try:
            # Imported when it is named: a broker without the extra writes into directories.
            from forebay.broker.storage.backup.object_target import open_object_target  # noqa: PLC0415
        except ImportError as missing:
            raise BackupError(
                f"target {text!r}: the package obstore is missing; install forebay[broker,object-store]"
            ) from missing
        return open_object_target(text)
    raise BackupError(f"target {text!r}: the scheme is {scheme!r}; file, {', '.join(OBJECT_SCHEMES)} are allowed")
