"""Follower: reads a journal into a replica, and takes over from an owner that is silent or has ended.

Time only decides when a follower tries; the journal decides which one succeeds. An engine that does not answer is no
silence of the owner, and neither is time in which the follower itself was slow or frozen.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from typing import Final

from forebay.broker.storage.replication.batch import Batch, FrameDamaged
from forebay.broker.storage.replication.checkpoints.source import CheckpointSource
from forebay.broker.storage.replication.engine import EngineAway
from forebay.broker.storage.replication.followers.end_search import EndSearch
from forebay.broker.storage.replication.followers.observed_age import ObservedAge, observed_age
from forebay.broker.storage.replication.followers.progress import FollowerProgress
from forebay.broker.storage.replication.followers.takeover import take_over
from forebay.broker.storage.replication.followers.upkeep import Upkeep
from forebay.broker.storage.replication.owner import Owner
from forebay.broker.storage.replication.reader import Reader
from forebay.broker.storage.replication.record import ANY_OTHER, Header, RecordDamaged, RecordKind
from forebay.broker.storage.replication.replica import Replica, ReplicaUnusable

_log: Final = logging.getLogger(__name__)
POLL_S: Final = 0.25
"""Time between two reads at the end of the journal."""
PAUSE_MIN_S: Final = 0.001
SPREAD_S: Final = 0.25
"""Random time by which followers take over apart."""
IDENTITY_BYTES: Final = 16
IDENTITY: Final = "owner"
"""File with the identity of the last owner that used the directory."""


@dataclass(frozen=True, slots=True)
class Takeover:
    """Conditions of a takeover."""

    after_s: float
    """Silence of the owner after which it does."""

    endpoint: str
    """Endpoint that it names in its fence, and by which an owner names it as its successor."""

    handed_over: bool = False
    """True if this process has handed the journal over: it takes it back only after the silence."""


class Follower:
    """Follower of a journal in one process, which owns the directory of its replica."""

    def __init__(
        self,
        reader: Reader,
        replica: Replica,
        directory: Path,
        takeover: Takeover,
        clock: Callable[[], float],
        checkpoints: CheckpointSource | None = None,
        progress: FollowerProgress | None = None,
    ) -> None:
        """``reader`` is at the replica's place. Without ``checkpoints`` this follower makes none.

        ``progress`` gets the position that it has read up to.

        ``clock`` is monotonic and counts the time in which the machine is suspended, in seconds.
        """
        self._reader: Final = reader
        self._engine: Final = reader.engine
        self._replica: Final = replica
        self._takeover: Final = takeover
        self._clock = clock
        self._upkeep: Final = Upkeep(replica, checkpoints, clock)
        self._progress: Final = progress or FollowerProgress(clock)
        self._ahead: Final = EndSearch(reader.engine, clock)
        self._identity: Final = secrets.token_bytes(IDENTITY_BYTES)
        self._file: Final = directory / IDENTITY
        self._former = self._file.read_bytes() if self._file.exists() else b""
        """Last owner in this directory. That process has ended, since this one has the directory."""
        self._heard_at = clock()
        self._wait_s = takeover.after_s + SystemRandom().uniform(0, SPREAD_S)
        self._away = ""
        self._was_at_end = False
        """True once this process has read to the end."""
        self.observed_age: ObservedAge | None = None
        """Last reading of the owner's age clock that was read soon after it was stored."""

    def follow(self, stop: threading.Event) -> Owner | None:
        """Follow until this process owns the journal, or ``stop`` is set, which returns None.

        Raises ``Trimmed`` where the replica is too far behind, ``ReplicaUnusable``, or another ``StoreError``.
        """
        _log.info("following a journal journal=%s position=%d", self._engine.address, self._replica.place.position)
        try:
            return self._follow(stop)
        finally:
            self._reader.close()
            self._upkeep.close()

    def _follow(self, stop: threading.Event) -> Owner | None:
        while not stop.is_set():
            is_behind = False
            try:
                began = self._clock()
                is_behind = self._apply(self._reader.read_some())
                self._progress.reached(self._reader.place.position, end_at_s=began if self._reader.met_end else None)
                if is_behind:
                    self._look_ahead()
                else:
                    self._was_at_end = True
                    if self._is_due(began) and (owner := self._take_over()) is not None:
                        self._upkeep.finish()
                        return owner
                if self._was_at_end:
                    self._upkeep.step()
                if self._away:
                    self._away = ""
                    _log.warning("journal answers again journal=%s", self._engine.address)
            except EngineAway as away:
                self._heard_at = self._clock()
                if self._away != away.event:
                    self._away = away.event
                    _log.error("journal %s journal=%s cause=%s", away.event, self._engine.address, away.cause)
            if not is_behind:
                stop.wait(self._pause_s())
        return None

    def _pause_s(self) -> float:
        """Return the pause before the next read: the one that finds the silence long enough is not late."""
        left_s = self._wait_s - (self._clock() - self._heard_at)
        return min(POLL_S, max(PAUSE_MIN_S, left_s)) if left_s > 0.0 else POLL_S

    def _look_ahead(self) -> None:
        """Search for the end ahead, where that is due. Raises ``Trimmed`` and ``EngineAway``."""
        found = self._ahead.look(self._reader.place.position)
        if found is not None:
            self._reader.check()  # what is below the horizon may be missing because it was trimmed
            self._progress.missing(*found)

    def _read(self) -> int:
        """Read and apply up to the end; returns the first missing position."""
        self._apply(self._reader.read())
        return self._reader.place.position

    def _apply(self, records: Iterable[tuple[int, Header, Batch | None]]) -> bool:
        """Apply what is read; returns whether there was a record."""
        before = self._reader.place.position
        try:
            for position, header, batch in records:
                if position == 0:
                    self._replica.journal = header.owner.hex()
                check_open(self._reader, header)
                if batch is not None:
                    self._replica.apply(batch, self._reader.place)
                    self._upkeep.note(batch.operations)
                    self._note_age(batch)
                self._heard_at = self._clock()
        except RecordDamaged as damage:
            raise self._unusable(self._reader.place.position, damage) from damage
        except FrameDamaged as damage:
            raise self._unusable(self._reader.place.position - 1, damage) from damage  # its records were taken
        return self._reader.place.position > before

    def _note_age(self, batch: Batch) -> None:
        found = observed_age(batch.operations, int(self._clock() * 1_000_000))
        if found is not None:  # what was stored before this process has read to the end may be old
            self.observed_age = found if self._was_at_end else None

    def _unusable(self, position: int, damage: ValueError) -> ReplicaUnusable:
        return ReplicaUnusable(f"record {position} of {self._engine.address} cannot be read: {damage}")

    def _is_due(self, at_s: float) -> bool:
        """Return whether a takeover is due; ``at_s`` is when the read began that has found the end.

        What the owner has appended since then is read next.
        """
        return self._has_no_owner() or at_s - self._heard_at >= self._wait_s

    def _has_no_owner(self) -> bool:
        place, successor = self._reader.place, self._reader.successor
        if self._takeover.handed_over and place.owner == self._former:
            return False
        if not place.released:
            return place.position == 0 or place.owner == self._former
        if successor == ANY_OTHER:
            return place.owner != self._former
        return successor in {"", self._takeover.endpoint}

    def _take_over(self) -> Owner | None:
        """Fence the owner; returns None if another follower was first, or the owner is not silent after all."""
        began, epoch = self._clock(), self._reader.place.epoch
        self._upkeep.stop("the broker takes over")  # the takeover does not wait for it until it owns the journal
        self._file.write_bytes(self._identity)
        owner = take_over(
            self._reader, self._read, self._identity, self._takeover.endpoint, self._clock, self._has_no_owner
        )
        if owner is None and self._reader.place.epoch == epoch:
            _log.info("the owner appends again, it is followed epoch=%d", epoch)
            return None
        if owner is None:
            _log.info(
                "another broker has taken over epoch=%d endpoint=%s", self._reader.place.epoch, self._reader.endpoint
            )
            self._former = b""
            return None
        _log.warning(
            "took over a journal journal=%s epoch=%d position=%d seconds=%.2f",
            self._engine.address,
            owner.epoch,
            owner.position,
            self._clock() - began,
        )
        return owner


def check_open(reader: Reader, header: Header) -> None:
    """Raise ``ReplicaUnusable`` for a record just read that lets no broker own the journal.

    An import without a checkpoint is not complete: with one, the reader would be behind its horizon.
    """
    if header.kind is RecordKind.IMPORT and reader.place.position == 1:
        raise ReplicaUnusable(f"an import into {reader.engine.address} is not complete; run it again")
    if reader.place.exported and not reader.exported_to:
        raise ReplicaUnusable(
            f"the shard of {reader.engine.address} was removed from its fleet; a new one needs another name. "
            "`forebay journal export` makes a data directory of what it had, unless its journal was deleted"
        )
    if reader.place.exported:
        raise ReplicaUnusable(
            f"the store has left {reader.engine.address}, it was exported to {reader.exported_to}; serve it there, or "
            "import it into another journal"
        )
