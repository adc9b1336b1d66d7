"""Database of the receiving system, one SQLite file.

Two tables: ``records`` has each record once, by its idempotency key; ``arrivals`` has every arrival. Therefore the file
shows the duplicates that a target without the key would have stored, and whether records first arrived in order.
Records are durable when `take` returns.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Final

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS records (
    key TEXT PRIMARY KEY,
    source TEXT NOT NULL,
    "partition" INTEGER NOT NULL,
    "offset" INTEGER NOT NULL,
    value TEXT NOT NULL,
    event_time TEXT,
    received_at TEXT NOT NULL,
    seq INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 1
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS arrivals (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL
);
"""
_INTEGER_END: Final = 1 << 63
_ARRIVE: Final = "INSERT INTO arrivals (seq, key) VALUES (?, ?)"
_KEEP: Final = """
INSERT INTO records (key, source, "partition", "offset", value, event_time, received_at, seq)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET attempts = attempts + 1
"""
_OUT_OF_ORDER: Final = """
SELECT count(*) FROM (
    SELECT "offset" < lag("offset") OVER (PARTITION BY source, "partition" ORDER BY seq) AS back FROM records
) WHERE back
"""
_PARTITIONS: Final = """
SELECT source, "partition", count(*), min("offset"), max("offset") FROM records
GROUP BY source, "partition" ORDER BY source, "partition"
"""


class NotAnEnvelope(ValueError):
    """A line is not an envelope of `forebay.deliver.targets.encoding`: enable ``envelope`` at the sender."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """Received record."""

    key: str
    """Idempotency key, ``<incarnation>-<partition>-<offset>``."""

    partition: int
    offset: int

    value: str
    """Value as JSON text; a surrogate without its pair is an escape sequence, because UTF-8 has none."""

    event_time: str | None

    @property
    def source(self) -> str:
        """Incarnation of the sink of origin."""
        return self.key.rsplit("-", 2)[0]

    @classmethod
    def parse(cls, line: bytes) -> Arrival:
        """Parse one envelope; raises `NotAnEnvelope`."""
        try:
            fields = json.loads(line)
            key, partition, offset, value = (fields[name] for name in ("key", "partition", "offset", "value"))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise NotAnEnvelope from error
        event_time = fields.get("event_time")
        if not (_is_number(partition) and _is_number(offset) and _is_text(key)):
            raise NotAnEnvelope
        if not (event_time is None or _is_text(event_time)):
            raise NotAnEnvelope
        text = json.dumps(value, ensure_ascii=False)
        return cls(key, partition, offset, text if _is_text(text) else json.dumps(value), event_time)


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """Stored records of one partition."""

    source: str
    """Incarnation of the sink."""

    partition: int
    rows: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts of the receiving system."""

    rows: int
    """Stored records."""

    arrivals: int
    """Arrivals of records, repeated ones included."""

    duplicates: int
    """Arrivals that would be stored twice without the key."""

    out_of_order: int
    """Records that first arrived after a higher offset of their partition."""

    partitions: tuple[PartitionRows, ...]


class ReceiverStore:
    """SQLite file of the receiving system. Thread-safe; used by one process at a time."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        # Protects the connection and the number; a batch waits for the one before it.
        self._one_at_a_time = Lock()
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.executescript(_SCHEMA)
        self._seq = int(self._connection.execute("SELECT coalesce(max(seq), 0) FROM arrivals").fetchone()[0])

    def add(self, arrivals: Sequence[Arrival], *, now: datetime) -> None:
        """Store all arrivals or, if it raises, none."""
        at = now.isoformat()
        with self._one_at_a_time:
            numbered = list(enumerate(arrivals, self._seq + 1))
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._connection.executemany(_ARRIVE, ((seq, a.key) for seq, a in numbered))
                self._connection.executemany(
                    _KEEP,
                    ((a.key, a.source, a.partition, a.offset, a.value, a.event_time, at, seq) for seq, a in numbered),
                )
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            self._seq += len(numbered)

    def stats(self) -> Stats:
        """Return the counts; reads the whole file."""
        with self._one_at_a_time:
            rows = self._count("SELECT count(*) FROM records")
            arrivals = self._count("SELECT count(*) FROM arrivals")
            out_of_order = self._count(_OUT_OF_ORDER)
            partitions = self._connection.execute(_PARTITIONS).fetchall()
        return Stats(rows, arrivals, arrivals - rows, out_of_order, tuple(PartitionRows(*row) for row in partitions))

    def close(self) -> None:
        """Close the file."""
        with self._one_at_a_time:
            self._connection.close()

    def _count(self, statement: str) -> int:
        return int(self._connection.execute(statement).fetchone()[0])


def _is_number(value: object) -> bool:
    """Return True for an integer that a column can have."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _INTEGER_END


def _is_text(value: object) -> bool:
    """Return True for text that is UTF-8."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
