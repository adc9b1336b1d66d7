"""Producers of a sink: rules for staging and committing, and their retention.

Runs of a producer have no order of their own; their tickets have. Of two runs the one with the higher ticket is the
newer one, and requests of the older one are rejected. All decisions are made in memory; a crash does not revert a
commit that was answered, see ``core.writes``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from forebay.broker.core.epochs.values import Claim, Content, ProducerRecord, StageRecord, Wanted, digest
from forebay.broker.core.errors import (
    BrokerError,
    EpochContentConflict,
)
from forebay.errors.reasons import Reason

PRODUCERS_MAX: Final = 10_000
"""Producers kept per sink.

Above the bound those of batches are dropped first, then the one idle longest.
"""


@dataclass(slots=True)
class Producers:
    """Producers of one sink."""

    sink: str
    restored_at_us: int = 0
    """Time at which the sink was restored from a backup; 0 if it was not.

    The first epoch of a producer after it has to follow the last one in the backup: those between are lost.
    """

    known: dict[str, ProducerRecord] = field(default_factory=dict)
    applications: dict[str, str] = field(default_factory=dict)
    """Application that a producer named last, since the start."""
    _holders: dict[str, str] = field(default_factory=dict)
    """Producer by write name."""
    _used_us: dict[str, int] = field(default_factory=dict)
    """Time of the last commit per producer, or of the start that loaded it, on the broker's own clock."""
    _committed_at_us: int = 0
    """Highest commit time assigned: commit times rise within a sink, so that they order the commits."""

    def restore(self, records: Iterable[ProducerRecord], now_us: int) -> None:
        """Load the stored producers; ``now_us`` is the time of the start on the broker's own clock."""
        for record in sorted(records, key=lambda each: each.committed_at_us):
            self._keep(record)
            self._used_us[record.producer] = now_us
            self._committed_at_us = max(self._committed_at_us, record.committed_at_us)

    def saw(self, stage: StageRecord) -> None:
        """Note the run of a stored stage. The write names keep their producers."""
        found = self.known.get(stage.producer) or ProducerRecord(stage.producer, stage.write_name)
        if not found.run or stage.ticket > found.ticket:
            self.known[stage.producer] = replace(found, run=stage.run, ticket=stage.ticket)

    def holder(self, write_name: str) -> str | None:
        """Return the producer that has a write name."""
        return self._holders.get(write_name)

    def is_named(self, record: ProducerRecord) -> bool:
        """Return whether the producer still has its write name."""
        return self.holder(record.write_name) == record.producer

    def idle(self, staging: Collection[str], spent: Collection[str], oldest_us: int) -> list[ProducerRecord]:
        """Return the producers to drop; ``staging`` names those with a stage, ``spent`` those without pages.

        A producer without a commit is kept while it has a stage, one without a write name for a time. At most
        ``PRODUCERS_MAX`` are kept in all; those without a name are dropped first. A producer with a live page is always
        kept: its epochs are needed to repair the index. ``oldest_us`` is on the broker's own clock, so no step of the
        wall clock makes a producer old.
        """
        free = [each for each in self.known.values() if each.producer not in staging]
        free = [each for each in free if each.epoch is None or each.producer in spent]
        free.sort(key=lambda each: (self.is_named(each), each.committed_at_us))
        more = len(self.known) - PRODUCERS_MAX
        return [
            each
            for index, each in enumerate(free)
            if each.epoch is None or index < more or (not self.is_named(each) and self._unused_since(each, oldest_us))
        ]

    def _unused_since(self, record: ProducerRecord, oldest_us: int) -> bool:
        return self._used_us.get(record.producer, 0) < oldest_us

    def stage(self, claim: Claim) -> bool:
        """Admit an attempt to stage; True if its run is newer, so that the stages of older runs are discarded.

        Raises ``PRODUCER_CHANGED``, ``EPOCH_AHEAD``, ``EPOCH_FENCED`` or ``ALREADY_COMMITTED``.
        """
        self._check_run(claim)
        found = self.known.get(claim.producer)
        if found is not None and found.epoch is not None:
            if claim.epoch == found.epoch:
                raise BrokerError(Reason.ALREADY_COMMITTED, producer=claim.producer, epoch=claim.epoch)
            if claim.epoch < found.epoch:
                raise BrokerError(
                    Reason.EPOCH_FENCED, self._later(found.epoch), producer=claim.producer, epoch=claim.epoch
                )
        newer = found is not None and found.run != claim.run
        self._keep(self._with_run(claim))
        return newer

    def commit(self, wanted: Wanted) -> bool:
        """Return True if the epoch is to be committed, False if it is committed already. Changes nothing.

        A repeat is the same call again, or another run that has written the same records. Raises ``PRODUCER_CHANGED``,
        ``EPOCH_AHEAD``, ``EPOCH_FENCED``, ``EPOCH_CONFLICT`` or ``EpochContentConflict``.
        """
        claim = wanted.claim
        self._check_run(claim)
        found = self.known.get(claim.producer)
        if found is None or found.epoch is None or claim.epoch > found.epoch:
            return True
        if claim.epoch < found.epoch:
            raise BrokerError(Reason.EPOCH_FENCED, self._later(found.epoch), producer=claim.producer, epoch=claim.epoch)
        tokens = digest(wanted.names)
        if tokens == found.tokens:
            return False
        if claim.run == found.committed_by:
            raise BrokerError(
                Reason.EPOCH_CONFLICT,
                "the same run committed it with other tokens",
                producer=claim.producer,
                epoch=claim.epoch,
            )
        if claim.run == found.repeated_by and tokens != found.repeated_tokens:
            why = "the same run has written it before, with other tokens: is it a second write under one name?"
            raise BrokerError(Reason.EPOCH_CONFLICT, why, producer=claim.producer, epoch=claim.epoch)
        stored, sent = found.content, wanted.content
        if stored is not None and sent is not None and stored.differs(sent, wanted.check):
            facts = {"stored": (stored.records, stored.digest), "sent": (sent.records, sent.digest)}
            raise EpochContentConflict(claim.producer, claim.epoch, **facts)
        return False

    def repeated(self, wanted: Wanted) -> ProducerRecord | None:
        """Return the record to store for a repeated commit; None if it is stored already."""
        found, tokens, run = self.known[wanted.claim.producer], digest(wanted.names), wanted.claim.run
        if tokens == found.tokens or (run, tokens) == (found.repeated_by, found.repeated_tokens):
            return None
        return replace(found, repeated_by=run, repeated_tokens=tokens)

    def committed(self, claim: Claim, tokens: Sequence[str], at_us: int, content: Content) -> ProducerRecord:
        """Return the record to store for a commit; see ``keep``.

        Commit times of a sink rise whatever the wall clock ``at_us`` shows: a start orders the commits by them, and the
        holder of a write name is the producer of its last commit.
        """
        self._committed_at_us = max(at_us, self._committed_at_us + 1)
        return replace(
            self._with_run(claim),
            epoch=claim.epoch,
            committed_by=claim.run,
            committed_at_us=self._committed_at_us,
            tokens=digest(tokens),
            records=content.records,
            content_digest=content.digest,
            repeated_by="",
            repeated_tokens="",
        )

    def keep(self, record: ProducerRecord, now_us: int) -> None:
        """Apply a durable commit; ``now_us`` is on the broker's own clock."""
        self._used_us[record.producer] = now_us
        now = self.known.get(record.producer)
        if now is not None and now.ticket > record.ticket:  # a newer run has begun since
            record = replace(record, run=now.run, ticket=now.ticket)
        self._keep(record)

    def remove(self, producer: str) -> None:
        """Remove a producer."""
        found = self.known.pop(producer, None)
        self._used_us.pop(producer, None)
        self.applications.pop(producer, None)
        if found is not None and self._holders.get(found.write_name) == producer:
            del self._holders[found.write_name]

    def _check_run(self, claim: Claim) -> None:
        holder = self._holders.get(claim.write_name) if claim.write_name else None
        if holder is not None and holder != claim.producer and not claim.takeover:
            raise BrokerError(
                Reason.PRODUCER_CHANGED,
                sink=claim.sink,
                write_name=claim.write_name,
                holder=holder,
                producer=claim.producer,
            )
        found = self.known.get(claim.producer)
        if found is not None and found.run != claim.run and claim.ticket < found.ticket:
            raise BrokerError(
                Reason.EPOCH_FENCED, "a newer run of the producer has begun", producer=claim.producer, epoch=claim.epoch
            )
        self._check_complete(claim, found)

    def _check_complete(self, claim: Claim, found: ProducerRecord | None) -> None:
        """Raise ``EPOCH_AHEAD`` if epochs before this one were lost with what came after a backup."""
        last = found.epoch if found is not None and found.epoch is not None else -1
        committed_at_us = found.committed_at_us if found is not None else 0
        is_first = 0 < self.restored_at_us >= committed_at_us
        if is_first and claim.epoch > last + 1 and not claim.takeover:
            raise BrokerError(
                Reason.EPOCH_AHEAD, sink=claim.sink, producer=claim.producer, epoch=claim.epoch, next=last + 1
            )

    def _later(self, epoch: int) -> str:
        return f"epoch {epoch} was committed; is the checkpoint a copy that is behind?"

    def _with_run(self, claim: Claim) -> ProducerRecord:
        found = self.known.get(claim.producer) or ProducerRecord(claim.producer, claim.write_name)
        return replace(found, write_name=claim.write_name, run=claim.run, ticket=max(found.ticket, claim.ticket))

    def _keep(self, record: ProducerRecord) -> None:
        before = self.known.get(record.producer)
        if before is not None and self._holders.get(before.write_name) == record.producer:
            del self._holders[before.write_name]
        self.known[record.producer] = record
        if record.write_name and record.epoch is not None:  # only a producer with a commit has a write name
            self._holders[record.write_name] = record.producer
