"""Replica: a local store with the batches of a journal, up to a position that is stored with them.

A batch is applied in one local batch with its position, not synced: what a power loss takes away is read from the
journal again. So a replica is behind the journal, never ahead of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from forebay.broker.storage.errors import StoreFailed
from forebay.broker.storage.records.journal_position import JOURNAL_POSITION, JournalPosition
from forebay.broker.storage.records.pages.page import BULK_PAGE
from forebay.broker.storage.records.store import HIGHEST
from forebay.broker.storage.replication.batch import Batch
from forebay.broker.storage.replication.engine import Engine
from forebay.broker.storage.replication.history import ReaderPosition
from forebay.broker.storage.replication.record import RecordDamaged, decode
from forebay.broker.storage.store.contract import Family, Operation, Store
from forebay.broker.storage.store.rocks.store import RocksStore


class ReplicaUnusable(StoreFailed):
    """The directory has a store without a journal, that of another journal, or a damaged one."""

    def __init__(self, reason: str) -> None:
        """Set the reason."""
        super().__init__("follow the journal", reason)


class Replica:
    """Local store of one broker. Its methods are called where ``Store.write`` is."""

    def __init__(self, store: RocksStore) -> None:
        """Take a store over. Raises ``ReplicaUnusable``, or another ``StoreError``."""
        self.store: Final = store
        self.journal = ""
        """Identity of the journal; empty before the first batch."""
        self.place = ReaderPosition()
        """Place of the last applied batch."""
        [stored] = store.get_many(Family.META, [JOURNAL_POSITION.key()])
        if stored is None:
            if store.scan(Family.META, b"", b"\xff" * 64, 1):
                raise ReplicaUnusable("the directory has a store without a journal; use an empty directory")
            return
        found = JOURNAL_POSITION.decoded(stored)
        if found is None:
            raise ReplicaUnusable("its position in the journal is damaged; use an empty directory, which is filled")
        self.journal = found.journal
        self.place = ReaderPosition(found.position, found.epoch, bytes.fromhex(found.owner), found.group)
        self._remove_partial()

    def _remove_partial(self) -> None:
        """Remove the bulk file of a batch that a crash interrupted: the batch is applied again."""
        [stored] = self.store.get_many(Family.META, [HIGHEST.key()])
        highest, _ = (HIGHEST.decoded(stored) if stored is not None else None) or (0, 0)
        self.store.remove_bulk_from(BULK_PAGE.key(highest + 1, 0, 0))

    def prepare(self, batch: Batch) -> Batch:
        """Write the bulk values of a batch that may become the next one; returns what is left to apply of it.

        Nothing names them before: where the batch is never applied, the next start removes them. Another thread than
        the one that applies may call it. Raises ``StoreError``.
        """
        self.store.ingest(batch.bulk)
        return Batch((), batch.operations)

    def apply(self, batch: Batch, place: ReaderPosition) -> None:
        """Apply the next batch of the journal, which ends at ``place``. Raises ``StoreError``."""
        self.store.commit(batch.bulk, [*batch.operations, put_position(self.journal, place)], sync=False)
        self.place = place


def put_position(journal: str, place: ReaderPosition) -> Operation:
    """Return the operation that stores a place in a journal, whose identity is given as hex."""
    position = JournalPosition(journal, place.position, place.epoch, place.owner.hex(), place.group)
    return JOURNAL_POSITION.put(JOURNAL_POSITION.key(), position)


def check_identity(engine: Engine, replica: Replica) -> None:
    """Raise ``ReplicaUnusable`` for a replica of another journal, or a damaged first record.

    Raises ``EngineAway``.
    """
    if not replica.journal:
        return
    first = engine.read(0)
    if first is None:
        raise ReplicaUnusable(f"the directory has the store of another journal: {engine.address} is empty")
    try:
        header, _ = decode(first)
    except RecordDamaged as damage:
        raise ReplicaUnusable(f"record 0 of {engine.address} cannot be read: {damage}") from damage
    if header.owner.hex() != replica.journal:
        raise ReplicaUnusable(f"the directory has the store of another journal than {engine.address}")


def check_no_replica(store: Store, directory: Path) -> None:
    """Raise ``StoreFailed`` for the store of a shard: a broker without its journal would fork the shard."""
    if store.get_many(Family.META, [JOURNAL_POSITION.key()]) == [None]:
        return
    raise StoreFailed(
        "open the store",
        f"{directory} follows the journal of a shard, and what a broker without it accepts would not be in the shard: "
        "set journal, or end the shard with `forebay journal export`; if the journal is lost, `forebay repair` makes a "
        "directory without it",
    )
