"""Engine in an object store: S3, Google Cloud Storage, Azure Blob Storage, or a compatible service.

A record is an object, created on the condition that its name has none (`If-None-Match: *` and its equivalents). It is
durable once its creation is answered. Credentials come from the environment, as for backups.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import ObjectStore

from forebay.broker.storage.backup.object_target import ObjectTarget
from forebay.broker.storage.backup.target import Target
from forebay.broker.storage.object_stores import is_bucket_missing, reason
from forebay.broker.storage.replication.batch import COPIED_BYTES_MAX
from forebay.broker.storage.replication.engine import PROBE_RACES, EngineAway, EngineFull, name_of
from forebay.broker.storage.replication.pieces import Piece
from forebay.broker.storage.replication.record import HEADER_BYTES

RECORDS: Final = "records/"
FILES: Final = "files"
DELETED_AT_ONCE: Final = 500
RACES: Final = "races/"
FULL: Final = (
    "507 Insufficient Storage",
    "<Code>QuotaExceeded",
    "<Code>XMinioStorageFull",
    "BucketQuotaExceeded</Code>",
)
"""Parts of answers of services without room: by status, of Ceph, and of MinIO for disks and buckets."""


class BucketEngine:
    """``Engine`` below a prefix of a bucket."""

    def __init__(self, objects: ObjectStore, address: str) -> None:
        """``objects`` has the prefix; ``address`` names both in messages."""
        self._objects: Final = objects
        self.address: Final = address
        self.durability: Final = "stored by the service, as its storage class says"
        self.races: Final = PROBE_RACES

    def create(self, position: int, pieces: Sequence[Piece]) -> bool:
        """See ``Engine.create``."""
        return self._create(RECORDS + name_of(position), pieces)

    def _create(self, name: str, pieces: Sequence[Piece]) -> bool:
        # Large pieces are sent from where they are. Small ones would each be a write to the connection.
        data = pieces if sum(map(len, pieces)) > COPIED_BYTES_MAX else b"".join(pieces)
        with self._failing():
            try:
                obstore.put(self._objects, name, data, mode="create", use_multipart=False)
            except (AlreadyExistsError, PreconditionError):
                return False
        return True

    def read(self, position: int) -> bytes | None:
        """See ``Engine.read``."""
        return self._read(RECORDS + name_of(position))

    def peek(self, position: int) -> bytes | None:
        """See ``Engine.peek``."""
        name = RECORDS + name_of(position)
        return self._found(lambda: bytes(obstore.get_range(self._objects, name, start=0, length=HEADER_BYTES)))

    def _read(self, name: str) -> bytes | None:
        return self._found(lambda: bytes(obstore.get(self._objects, name).bytes()))

    def _found(self, read: Callable[[], bytes]) -> bytes | None:
        """Return what is read, None for a name that does not exist in a bucket that does."""
        with self._failing():
            try:
                return read()
            except FileNotFoundError as error:
                if is_bucket_missing(error):
                    raise EngineAway("the bucket does not exist", self.address) from error
                return None

    def sizes(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """See ``Engine.sizes``."""
        found: list[tuple[int, int]] = []
        offset = RECORDS + name_of(first - 1) if first else None
        with self._failing():
            for listed in obstore.list(self._objects, RECORDS.rstrip("/"), offset=offset):
                for each in listed:
                    position = int(each["path"].rpartition("/")[2])
                    if first <= position < end:
                        found.append((position, each["size"]))
                if listed and int(listed[-1]["path"].rpartition("/")[2]) >= end:
                    break  # services list by name
        yield from sorted(found)

    def replace(self, position: int, pieces: Sequence[Piece]) -> None:
        """See ``Engine.replace``."""
        with self._failing():
            obstore.put(self._objects, RECORDS + name_of(position), b"".join(pieces), use_multipart=False)

    def delete(self, positions: Sequence[int]) -> None:
        """See ``Engine.delete``."""
        with self._failing():
            for at in range(0, len(positions), DELETED_AT_ONCE):
                names = [RECORDS + name_of(position) for position in positions[at : at + DELETED_AT_ONCE]]
                try:
                    obstore.delete(self._objects, names)
                except FileNotFoundError:
                    for name in names:  # a service that reports missing names may have left out the rest
                        with suppress(FileNotFoundError):
                            obstore.delete(self._objects, name)

    def reclaim(self, stop: threading.Event) -> None:
        """Do nothing: a deletion releases the space; see ``Engine.reclaim``."""

    def index(self) -> None:
        """Do nothing: names are listed; see ``Engine.index``."""

    def create_named(self, name: str, content: bytes) -> bool:
        """See ``Engine.create_named``."""
        return self._create(name, (content,))

    def read_named(self, name: str) -> bytes | None:
        """See ``Engine.read_named``."""
        return self._read(name)

    def put_named(self, name: str, content: bytes) -> None:
        """See ``Engine.put_named``."""
        with self._failing():
            obstore.put(self._objects, name, content, use_multipart=False)

    def delete_named(self, name: str) -> None:
        """See ``Engine.delete_named``."""
        with self._failing(), suppress(FileNotFoundError):
            obstore.delete(self._objects, name)

    def names(self, folder: str) -> list[str]:
        """See ``Engine.names``."""
        with self._failing():
            found = [each["path"] for listed in obstore.list(self._objects, folder) for each in listed]
        return sorted(f"{folder}/{path.rpartition('/')[2]}" for path in found)

    def files(self) -> Target:
        """See ``Engine.files``."""
        return ObjectTarget(self._objects, self.address, folder=FILES, role="journal")

    def free_bytes(self) -> int | None:
        """Return None: a service has no such number; see ``Engine.free_bytes``."""
        return None

    def race(self, name: str) -> bool:
        """See ``Engine.race``."""
        return self._create(RACES + name, ())

    def end_races(self, names: Sequence[str]) -> None:
        """See ``Engine.end_races``."""
        with self._failing():
            obstore.delete(self._objects, [RACES + name for name in names])

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Name the journal in errors of the service, with their first line."""
        try:
            yield
        except (BaseError, OSError) as error:
            text = str(error)
            kind = EngineFull if any(part in text for part in FULL) else EngineAway
            raise kind(reason(error), self.address) from error
