"""Reads the remote system's database from outside, whether its process is there or not.

It never writes. The table `arrivals` has every time that a record came, `records` each record once, by its
idempotency key, which ends with partition and offset.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from forebay.cli.demo.reconcile import Arrival

BUSY_S: Final = 10.0
"""How long to wait while the database is being recovered after a kill."""


class TargetView:
    """A read-only view of the database. A context manager; opened with the first question."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._connection: sqlite3.Connection | None = None
        self._seen = 0
        self._heads: dict[str, int] = {}
        self._rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection is not None:
            self._connection.close()

    def count(self) -> int:
        """How many records have arrived, each counted once; reads only what came since the last call.

        A record that comes after a higher offset of its partition is not counted here; `arrivals` has them
        all.
        """
        if not self._database.exists():
            return 0
        for sequence, key in self._open().execute(
            "SELECT seq, key FROM arrivals WHERE seq > ? ORDER BY seq", (self._seen,)
        ):
            partition, _, offset = str(key).rpartition("-")
            if int(offset) > self._heads.get(partition, -1):
                self._heads[partition] = int(offset)
                self._rows += 1
            self._seen = sequence
        return self._rows

    def arrivals(self) -> Iterator[Arrival]:
        """Yield every record that is held, in the order in which each came first."""
        if not self._database.exists():
            return
        rows = self._open().execute(
            """SELECT "partition", "offset", coalesce(json_extract(value, '$.id'), ''), attempts FROM
            records ORDER BY seq
            """
        )
        for partition, offset, record_id, attempts in rows:
            yield Arrival(partition, offset, str(record_id), attempts)

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            address = f"{self._database.resolve().as_uri()}?mode=ro"
            self._connection = sqlite3.connect(address, uri=True, timeout=BUSY_S, isolation_level=None)
        return self._connection
