"""Store whose batches are appended to a journal before they are applied locally.

A commit returns once its batch is durable in the journal, and applied here. Reads are those of the local replica.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from forebay.broker.storage.errors import StoreCorrupt
from forebay.broker.storage.replication.engine import Engine
from forebay.broker.storage.replication.followers.observed_age import ObservedAge
from forebay.broker.storage.replication.history import ReaderPosition
from forebay.broker.storage.replication.owner import Fenced, Owner
from forebay.broker.storage.replication.replica import Replica, ReplicaUnusable, check_identity
from forebay.broker.storage.replication.window import Window
from forebay.broker.storage.store.contract import Family, Marks, Operation, Value, WriteStall

_log: Final = logging.getLogger(__name__)
RELEASE_S: Final = 5.0
"""Time limit of the orderly end of an owner."""


class ReplicatedStore:
    """A ``Store`` and ``SnapshotSource`` over the replica of an owner."""

    def __init__(
        self,
        replica: Replica,
        owner: Owner,
        engine: Engine,
        *,
        tables_of: str = "",
        observed: ObservedAge | None = None,
    ) -> None:
        """Take a replica over that has all batches up to the owner's fence.

        ``tables_of`` is the last checkpoint that this process has made or loaded, ``observed`` the age clock of the
        former owner.
        """
        self._replica: Final = replica
        self.engine: Final = engine
        self.tables_of: Final = tables_of
        self.observed: Final = observed
        self._local: Final = replica.store
        self.owner: Final = owner
        self._window: Final = Window(replica, owner)
        self.successor = ""
        """Broker that takes over at once when this store is closed; see ``Owner.release``."""

    # -- changes

    def commit(
        self, bulk: Sequence[tuple[bytes, Value]], operations: Sequence[Operation], *, sync: bool = True
    ) -> None:
        """Append a batch to the journal, durably whatever ``sync`` is, then apply it; see ``Store.commit``.

        Bulk values are written locally at the same time. Waits while the journal does not answer.
        """
        self._window.begin(bulk, operations).finish()

    def window(self) -> Window:
        """Return the window of the owner; see ``Store.window``."""
        return self._window

    def ingest(self, items: Sequence[tuple[bytes, Value]]) -> None:
        """Commit bulk values alone; see ``Store.ingest``."""
        self.commit(items, ())

    def write(self, operations: Sequence[Operation]) -> None:
        """Commit a batch alone; see ``Store.write``."""
        self.commit((), operations)

    def is_ready(self) -> bool:
        """Return False: a commit waits for the journal; see ``Store.is_ready``."""
        return False

    def sync(self) -> None:
        """Do nothing: a batch is durable once it is committed."""

    def mark(self, marks: Marks) -> None:
        """Do nothing: the journal loses no batch."""

    def marked(self) -> Marks:
        """Return no records, and the epoch before the own one; the start that follows gets the own one."""
        return 0, self.owner.epoch - 1

    def is_replica(self) -> bool:
        """Return True; see ``Store.is_replica``."""
        return True

    def rewrite(self, family: Family, wanted: Sequence[bytes] = ()) -> list[tuple[bytes, bytes]]:
        """Raise ``StoreCorrupt``: a damaged replica is rebuilt, not rewritten."""
        raise StoreCorrupt(family, "a part cannot be read; use an empty directory, which is filled from the journal")

    def compact(self, family: Family, first: bytes, end: bytes) -> None:
        """Release local space; see ``Store.compact``."""
        self._local.compact(family, first, end)

    # -- reads

    def get_many(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        """See ``Store.get_many``."""
        return self._local.get_many(family, keys)

    def prefetch(self, keys: Sequence[bytes]) -> None:
        """See ``Store.prefetch``."""
        self._local.prefetch(keys)

    def is_remote(self, keys: Iterable[bytes]) -> bool:
        """See ``Store.is_remote``."""
        return self._local.is_remote(keys)

    def end_transfers(self) -> None:
        """See ``Store.end_transfers``."""
        self._local.end_transfers()

    def scan(
        self, family: Family, first: bytes, end: bytes, limit: int, *, reverse: bool = False
    ) -> list[tuple[bytes, bytes]]:
        """See ``Store.scan``."""
        return self._local.scan(family, first, end, limit, reverse=reverse)

    def bulk_keys(self, first: bytes, end: bytes, limit: int, *, here: bool = False) -> list[bytes]:
        """See ``Store.bulk_keys``."""
        return self._local.bulk_keys(first, end, limit, here=here)

    def highest_keys(self) -> list[bytes]:
        """See ``Store.highest_keys``."""
        return self._local.highest_keys()

    def live_bytes(self) -> int:
        """See ``Store.live_bytes``."""
        return self._local.live_bytes()

    def free_bytes(self) -> int:
        """See ``Store.free_bytes``."""
        return self._local.free_bytes()

    def write_stall(self) -> WriteStall:
        """See ``Store.write_stall``."""
        return self._local.write_stall()

    def write_stall_s(self) -> float | None:
        """See ``Store.write_stall_s``."""
        return self._local.write_stall_s()

    def flush(self) -> None:
        """See ``SnapshotSource.flush``."""
        self._local.flush()

    def remote_bytes(self) -> int:
        """See ``SnapshotSource.remote_bytes``."""
        return self._local.remote_bytes()

    def checkpoint(self, into: Path) -> list[Path]:
        """See ``SnapshotSource.checkpoint``."""
        return self._local.checkpoint(into)

    def place(self) -> ReaderPosition:
        """Return the place of the last applied batch; exact where ``commit`` is called."""
        return self._replica.place

    def journal(self) -> str:
        """Return the identity of the journal."""
        return self._replica.journal

    def has_journal(self) -> bool:
        """Return False if the address of the journal has another one, or none. Raises ``EngineAway``."""
        try:
            check_identity(self.engine, self._replica)
        except ReplicaUnusable:
            return False
        return True

    def end_outage(self) -> None:
        """Fail the commit that waits for a journal that does not answer, and every later one. Any thread."""
        if self.owner.away_since is not None:
            self.owner.end()

    def close(self) -> None:
        """End the ownership, so that no follower waits, and close the local store; see ``Store.close``.

        It ends also where the local store failed: what the journal has confirmed is there for others.
        """
        if not self._window.is_unknown and self.owner.away_since is None:
            self._release()
        self.owner.close()
        self._window.close()
        self._local.close()

    def _release(self) -> None:
        limit = threading.Timer(RELEASE_S, self.owner.end)
        limit.start()
        try:
            with suppress(Fenced):
                self.owner.release(self.successor)
        finally:
            limit.cancel()
        self._window.end()
