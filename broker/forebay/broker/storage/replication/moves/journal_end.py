"""End of a journal: a fence once its owner has ended or is silent, and a last record after it.

No broker takes over after that record, and no former owner confirms anything after the fence.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from typing import Final

from forebay.broker.storage.replication.batch import Batch, FrameDamaged
from forebay.broker.storage.replication.engine import Engine, EngineAway
from forebay.broker.storage.replication.followers.follower import IDENTITY_BYTES, POLL_S
from forebay.broker.storage.replication.followers.takeover import take_over
from forebay.broker.storage.replication.history import ReaderPosition
from forebay.broker.storage.replication.moves.errors import JournalEmpty, JournalInUse
from forebay.broker.storage.replication.owner import Fenced, Owner
from forebay.broker.storage.replication.reader import Reader
from forebay.broker.storage.replication.record import RecordDamaged, RecordKind
from forebay.broker.storage.replication.replica import Replica, ReplicaUnusable
from forebay.broker.storage.store.rocks.store import RocksStore

PATIENCE: Final = 2
"""Silences for which the end waits for one of the owner."""
END_S: Final = 15.0
"""Time limit of the last record."""


class JournalEnd:
    """The end of one journal, and a store that is applied up to it. For one thread."""

    def __init__(
        self,
        engine: Engine,
        store: RocksStore,
        *,
        silence_s: float,
        clock: Callable[[], float],
        wait: Callable[[float], object],
        pages: bool = True,
    ) -> None:
        """``store`` has the newest checkpoint. Raises ``ReplicaUnusable``.

        ``silence_s`` is the silence after which an owner counts as ended, ``clock`` is monotonic, in seconds. Without
        ``pages`` the store gets no bulk files.
        """
        self._engine: Final = engine
        self._pages: Final = pages
        self._silence_s: Final = silence_s
        self._clock: Final = clock
        self._wait: Final = wait
        self._replica: Final = Replica(store)
        self._reader: Final = Reader(engine, self._replica.place)
        self.ended_at: ReaderPosition | None = None
        """Place of the record that ends the journal, None while it has none."""

    @property
    def place(self) -> ReaderPosition:
        """Place after the last record that was read."""
        return self._reader.place

    @property
    def exported_to(self) -> str:
        """Directory in which the store continues, empty if it was not exported."""
        return self._reader.exported_to

    @property
    def journal(self) -> str:
        """Identity of the journal, as hex."""
        return self._replica.journal

    def read(self) -> None:
        """Read and apply up to the end.

        Raises ``JournalEmpty``, ``ReplicaUnusable``, ``EngineAway``, and ``Trimmed`` where the store is too far behind.
        """
        self._reader.check()
        self._read()
        if self.place.position == 0:
            raise JournalEmpty(self._engine.address)

    def await_silence(self) -> None:
        """Read on until the journal or its owner has ended, or the owner is silent.

        Raises ``JournalInUse`` for an owner that appends, and as ``read`` does.
        """
        first = read_at = self._clock()
        while not self._has_no_owner():
            began, before = self._clock(), self.place.position
            self._read()
            if self.place.position > before:
                read_at = self._clock()
            elif began - read_at >= self._silence_s:
                return
            if began - first >= PATIENCE * self._silence_s:
                raise JournalInUse(self._engine.address, self._owner())
            self._wait(min(POLL_S, self._silence_s / 4))

    def take_over(self, endpoint: str) -> Owner | None:
        """Fence the owner; returns None where another process has ended the journal.

        ``endpoint`` is named in the fence. Raises ``JournalInUse``, and as ``read`` does.
        """
        owner = take_over(
            self._reader,
            self._read,
            secrets.token_bytes(IDENTITY_BYTES),
            endpoint,
            self._clock,
            self._has_no_owner,
        )
        if owner is None and not self.place.exported:
            raise JournalInUse(self._engine.address, self._owner())
        return owner

    def append(self, owner: Owner, to: str) -> None:
        """Append the last record; ``to`` is where the store continues, empty for nowhere.

        Raises ``JournalInUse``, or ``EngineAway`` where the outcome is unknown.
        """
        limit = threading.Timer(END_S, owner.end)
        limit.start()
        try:
            owner.export(to)
        except Fenced as fenced:
            if owner.away_since is not None:
                raise EngineAway("it did not confirm the end of the journal", self._engine.address) from fenced
            if isinstance(fenced.__cause__, RecordDamaged):
                raise ReplicaUnusable(str(fenced)) from fenced
            raise JournalInUse(self._engine.address, "a broker that has taken it over") from fenced
        finally:
            limit.cancel()

    def release(self, owner: Owner) -> None:
        """Return the journal to the brokers of its shard.

        Without an answer, or where another owner has fenced this one, they take it over after their silence.
        """
        limit = threading.Timer(END_S, owner.end)
        limit.start()
        try:
            owner.release()
        except Fenced:
            return
        finally:
            limit.cancel()

    def _read(self) -> int:
        """Read and apply up to the end; returns the first missing position."""
        before = self._reader.place
        try:
            for position, header, batch in self._reader.read():
                if position == 0:
                    if header.kind is RecordKind.IMPORT:
                        raise JournalEmpty(self._engine.address, "an import into it is not complete; run it again")
                    self._replica.journal = header.owner.hex()
                if batch is not None:
                    kept = batch if self._pages else Batch((), batch.operations)
                    self._replica.apply(kept, self._reader.place)
                if self.place.exported and self.ended_at is None:
                    self.ended_at = before
                before = self._reader.place
        except (RecordDamaged, FrameDamaged) as damage:
            at = f"a record up to {self.place.position} of {self._engine.address}"
            raise ReplicaUnusable(f"{at} cannot be read: {damage}") from damage
        return self.place.position

    def _has_no_owner(self) -> bool:
        """Return whether the owner has stopped gracefully, or there was none."""
        return self.place.exported or self.place.released or not self.place.owner

    def _owner(self) -> str:
        endpoint = f" at {self._reader.endpoint}" if self._reader.endpoint else ""
        return f"the broker{endpoint} with owner epoch {self.place.epoch}"
