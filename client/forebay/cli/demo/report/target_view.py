"""Read-only view of the remote system's database, independent of its process.

It never writes. The table `arrivals` has every arrival of a record; `records` has each record once, by its idempotency
key, which ends with partition and offset.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

from forebay.cli.demo.report.reconciliation import TargetRow

BUSY_S: Final = 10.0
"""Time limit for the recovery of the database after a kill."""


class TargetView:
    """Read-only view of the database. A context manager; opened on first use."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._connection: sqlite3.Connection | None = None
        self._seen = 0
        self._heads: dict[str, int] = {}
        self._rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            self._connection.close()

    def count(self) -> int:
        """Return the number of distinct records that have arrived; reads only arrivals since the last call.

        A record that arrives after a higher offset of its partition is not counted here; `rows` has all.
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

    def rows(self) -> Iterator[TargetRow]:
        """Yield every stored record in the order of first arrival."""
        if not self._database.exists():
            return
        rows = self._open().execute(
            """SELECT "partition", "offset", coalesce(json_extract(value, '$.id'), ''), attempts FROM
            records ORDER BY seq
            """
        )
        for partition, offset, record_id, attempts in rows:
            yield TargetRow(partition, offset, str(record_id), attempts)

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            address = f"{self._database.resolve().as_uri()}?mode=ro"
            self._connection = sqlite3.connect(address, uri=True, timeout=BUSY_S, isolation_level=None)
        return self._connection
