"""Engine in an object store: S3, Google Cloud Storage, Azure Blob Storage, or a compatible service.

A record is an object, created on the condition that its name has none (`If-None-Match: *` and its equivalents). It is
durable once its creation is answered. Credentials come from the environment, as for backups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import ObjectStore

from forebay.broker.storage.replication.batch import Piece
from forebay.broker.storage.replication.engine import EngineAway, name_of

RECORDS: Final = "records/"
RACES: Final = "races/"


class BucketEngine:
    """``Engine`` below a prefix of a bucket."""

    def __init__(self, objects: ObjectStore, address: str) -> None:
        """``objects`` has the prefix; ``address`` names both in messages."""
        self._objects: Final = objects
        self.address: Final = address

    def create(self, position: int, pieces: Sequence[Piece]) -> bool:
        """See ``Engine.create``."""
        return self._create(RECORDS + name_of(position), b"".join(pieces))

    def _create(self, name: str, data: bytes) -> bool:
        with self._failing():
            try:
                obstore.put(self._objects, name, data, mode="create", use_multipart=False)
            except (AlreadyExistsError, PreconditionError):
                return False
        return True

    def read(self, position: int) -> bytes | None:
        """See ``Engine.read``."""
        with self._failing():
            try:
                return bytes(obstore.get(self._objects, RECORDS + name_of(position)).bytes())
            except FileNotFoundError as error:
                if "NoSuchBucket" in str(error) or "ContainerNotFound" in str(error):
                    raise EngineAway(f"{self.address}: the bucket does not exist") from error
                return None

    def race(self, name: str) -> bool:
        """See ``Engine.race``."""
        return self._create(RACES + name, b"")

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
            raise EngineAway(f"{self.address}: {str(error).partition(chr(10))[0]}") from error
