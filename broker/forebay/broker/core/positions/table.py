"""Saved positions of named consumers: documents by key, written under a condition.

The broker compares versions and does not look into a document. A version is a hash of the document, so nothing else has
to be stored; the documents of two consumers differ by their owner, so a version names one write.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from forebay.broker.core.errors import BrokerError
from forebay.errors.reasons import Reason

DOCUMENT_BYTES_MAX: Final = 4096
POSITIONS_MAX: Final = 100_000
BYTES_MAX: Final = 64 << 20
"""Bytes of all documents: they are held in memory."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_PARTITIONS: Final = 1024


@dataclass(frozen=True, slots=True)
class PositionKey:
    """Place of a saved position."""

    namespace: str
    consumer: str
    sink: str
    partition: int

    def __str__(self) -> str:
        """Return the stored key."""
        return f"{self.namespace}/{self.consumer}/{self.sink}/{self.partition}"

    def check(self) -> None:
        """Raise ``INVALID_POSITION_KEY`` for names that are not stored."""
        for field in ("namespace", "consumer", "sink"):
            name = getattr(self, field)
            if _NAME.fullmatch(name) is None:
                allowed = "a letter or digit, then up to 127 letters, digits, '.', '_' or '-'"
                raise BrokerError(
                    Reason.INVALID_POSITION_KEY,
                    f"key.{field} = {name[:160]!r}: must be {allowed}",
                    field=f"key.{field}",
                )
        if self.partition >= _PARTITIONS:
            raise BrokerError(
                Reason.INVALID_POSITION_KEY,
                f"key.partition = {self.partition}: must be below {_PARTITIONS}",
                field="key.partition",
            )


def parse_key(text: str) -> PositionKey:
    """Return the key of a stored position."""
    namespace, consumer, sink, partition = text.split("/")
    return PositionKey(namespace, consumer, sink, int(partition))


def version_of(document: bytes) -> str:
    """Return the version of a document."""
    return hashlib.blake2b(document, digest_size=16).hexdigest()


class PositionTable:
    """All saved positions of a broker."""

    def __init__(self, found: Mapping[str, bytes]) -> None:
        self._documents = dict(found)
        self._keys = sorted(self._documents)
        self._bytes = sum(map(len, self._documents.values()))

    def __len__(self) -> int:
        return len(self._keys)

    def get(self, key: str) -> bytes | None:
        """Return a document; None if there is none."""
        return self._documents.get(key)

    def write(self, key: str, document: bytes, expected: str) -> str:
        """Store a document and return its version.

        Raises ``POSITION_CONFLICT`` unless the stored version is ``expected``, where empty expects none; and
        ``INVALID_POSITION_KEY``, ``TOO_MANY_POSITIONS``. Then nothing changed.
        """
        if not 1 <= len(document) <= DOCUMENT_BYTES_MAX:
            raise BrokerError(
                Reason.INVALID_POSITION_KEY,
                f"document has {len(document)} bytes: must be 1 to {DOCUMENT_BYTES_MAX}",
                field="document",
            )
        found = self._documents.get(key)
        stored = version_of(found) if found is not None else ""
        if stored != expected:
            raise BrokerError(Reason.POSITION_CONFLICT, key=key, expected=expected, stored=stored)
        size = self._bytes + len(document) - len(found or b"")
        if (found is None and len(self._keys) >= POSITIONS_MAX) or size > BYTES_MAX:
            raise BrokerError(Reason.TOO_MANY_POSITIONS, positions=len(self._keys), limit=POSITIONS_MAX)
        if found is None:
            insort(self._keys, key)
        self._documents[key] = document
        self._bytes = size
        return version_of(document)

    def delete(self, key: str) -> bool:
        """Delete a document; return False if there was none."""
        found = self._documents.pop(key, None)
        if found is None:
            return False
        self._bytes -= len(found)
        del self._keys[bisect_left(self._keys, key)]
        return True

    def list(self, prefix: str, after: str, limit: int) -> list[str]:
        """Return up to ``limit`` keys above ``after`` that begin with ``prefix``, in order."""
        at = max(bisect_left(self._keys, prefix), bisect_right(self._keys, after))
        found = islice(self._keys, at, at + limit)
        return [key for key in found if key.startswith(prefix)]
