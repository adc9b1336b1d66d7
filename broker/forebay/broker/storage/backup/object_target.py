"""Target in an object store: S3, Google Cloud Storage, Azure Blob Storage, or a compatible service.

Each name is an object below the prefix of the address. A large one is uploaded in parts, and exists once all of them
are there. Credentials come from the environment, as the service's own tools take them: `AWS_…`, `GOOGLE_…`, `AZURE_…`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import obstore
from obstore.exceptions import BaseError
from obstore.store import ObjectStore

from forebay.broker.storage.backup.errors import BackupError, TargetFailed, TargetMissing
from forebay.broker.storage.backup.target import CHUNK_BYTES
from forebay.broker.storage.object_stores import AddressInvalid, is_bucket_missing, open_objects, reason

SINGLE_BYTES: Final = 8 << 20
"""Largest object that is uploaded in one request; S3 takes no smaller parts than 5 MiB."""
DELETED_AT_ONCE: Final = 500


class ObjectTarget:
    """A ``Target``."""

    reads_at_once: Final = 8

    def __init__(self, objects: ObjectStore, place: str, *, folder: str = "", role: str = "backup target") -> None:
        """``place`` names the bucket and the prefix in errors, after ``role``; names are below ``folder``."""
        self._objects = objects
        self._folder: Final = f"{folder}/" if folder else ""
        self._role: Final = role
        self._place: Final = place

    def names(self, prefix: str = "") -> Iterator[str]:
        """See ``Target.names``."""
        wanted = self._folder + prefix
        with self._failing():
            for found in obstore.list(self._objects, wanted.rpartition("/")[0] or None):
                paths = (each["path"] for each in found)
                yield from (path.removeprefix(self._folder) for path in paths if path.startswith(wanted))

    def put(self, name: str, chunks: Iterable[bytes | memoryview]) -> None:
        """See ``Target.put``."""
        source = (bytes(chunk) for chunk in chunks)
        name, first = self._folder + name, _up_to(source, SINGLE_BYTES)
        with self._failing():
            if len(first) < SINGLE_BYTES:
                obstore.put(self._objects, name, first, use_multipart=False)
            else:
                obstore.put(self._objects, name, _joined(first, source), use_multipart=True, chunk_size=SINGLE_BYTES)

    def get(self, name: str) -> Iterator[bytes]:
        """See ``Target.get``."""
        with self._failing():
            for chunk in obstore.get(self._objects, self._folder + name).stream(min_chunk_size=CHUNK_BYTES):
                yield bytes(chunk)

    def delete(self, names: Iterable[str]) -> None:
        """See ``Target.delete``."""
        wanted = [self._folder + name for name in names]
        with self._failing():
            for at in range(0, len(wanted), DELETED_AT_ONCE):
                obstore.delete(self._objects, wanted[at : at + DELETED_AT_ONCE])

    def sync(self) -> None:
        """See ``Target.sync``: an object is durable once its upload was answered."""

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Name the target in errors of the service, without what it answered beside the first line."""
        try:
            yield
        except (BaseError, OSError) as error:
            if is_bucket_missing(error):
                text = f"{self._role} {self._place}: the bucket does not exist; check its name"
                raise TargetMissing(text, self._place) from error
            if isinstance(error, FileNotFoundError):
                raise
            raise TargetFailed(f"{self._role} {self._place}: {reason(error)}") from error


def open_object_target(text: str) -> ObjectTarget:
    """Return the target of an address; nothing is sent before its first use. Raises ``BackupError``."""
    try:
        objects, place = open_objects(text)
    except AddressInvalid as error:
        raise BackupError(f"target {error}") from error
    return ObjectTarget(objects, place)


def _up_to(source: Iterator[bytes], size: int) -> bytes:
    """Take chunks until they have ``size`` bytes, or are all."""
    taken: list[bytes] = []
    total = 0
    while total < size:
        chunk = next(source, None)
        if chunk is None:
            break
        taken.append(chunk)
        total += len(chunk)
    return b"".join(taken)


def _joined(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest
