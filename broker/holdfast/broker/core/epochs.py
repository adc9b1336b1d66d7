"""Epochs: what a producer stages, and whether it may be staged or committed.

A producer is one query's writes to a sink under one name, or one batch. Its runs have no order of their own; their
tickets have. Of two runs the one with the higher ticket is the newer one, and what the older one still says is refused.
All here is decided in memory; a crash takes back nothing that a commit was answered for, see ``core.writes``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from holdfast.broker.core.errors import AlreadyCommitted, EpochConflict, EpochFenced, InvalidEpoch, ProducerChanged
from holdfast.broker.core.settings import is_id

EPOCH_MAX: Final = (1 << 63) - 1
TOKENS_MAX: Final = 100_000
_NAME: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")


@dataclass(frozen=True, slots=True)
class Claim:
    """Who writes which epoch, as a stage or a commit says it."""

    sink: str
    producer: str
    write_name: str
    """Empty for a batch."""

    epoch: int
    run: str
    ticket: int
    takeover: bool = False

    def checked(self, field_name: str) -> Claim:
        """Return it, or raise ``InvalidEpoch`` for the first wrong name; ``field_name`` says where it came from."""
        named = {"producer": self.producer, "run": self.run}
        if self.write_name:
            named["write_name"] = self.write_name
        for name, text in named.items():
            if _NAME.fullmatch(text) is None:
                raise InvalidEpoch(f"{name} must be 1 to 128 of [A-Za-z0-9._:-]", field=f"{field_name}.{name}")
        if self.epoch > EPOCH_MAX:
            raise InvalidEpoch(f"epoch is at most {EPOCH_MAX}", field=f"{field_name}.epoch")
        return self


def checked_token(token: str, field_name: str) -> str:
    """Return a token, or raise ``InvalidEpoch``."""
    if not is_id(token):
        raise InvalidEpoch("a token must be 1 to 64 of [A-Za-z0-9._-]", field=field_name)
    return token


@dataclass(frozen=True, slots=True)
class StagedPage:
    """A page that is stored and that nothing shows yet."""

    number: int
    """Page number."""

    bulk: bool
    encoding: int
    count: int
    """Records."""

    size: int
    """Bytes of its body."""

    crc32: int
    traceparent: str = ""


@dataclass(frozen=True, slots=True)
class StageRecord:
    """What one attempt stages for, as it is stored. Its pages are stored beside it."""

    number: int
    """In the store; never given twice."""

    producer: str
    write_name: str
    epoch: int
    token: str
    run: str
    ticket: int


@dataclass(frozen=True, slots=True)
class TokenPart:
    """What a commit says that one token has staged in one partition."""

    partition: int
    pages: int
    records: int


@dataclass(frozen=True, slots=True)
class EpochPart:
    """Where the pages of one token stand in one partition."""

    partition: int
    base: int
    """Offset of the first record."""

    records: int
    pages: int
    size: int
    """Bytes of their bodies."""

    stage: int
    """Number of the stage that the pages were written for: it stands in their headers."""

    first: int
    """Lowest page number."""

    last: int
    """Highest page number."""

    @property
    def end(self) -> int:
        return self.base + self.records


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """An epoch that was committed: stored while one of its pages lives, or it is the last one of its producer."""

    producer: str
    write_name: str
    epoch: int
    run: str
    committed_at_us: int
    tokens: int
    digest: str
    """Of the tokens."""

    parts: tuple[EpochPart, ...]
    """By partition and offset."""


@dataclass(frozen=True, slots=True)
class ProducerRecord:
    """A producer as it is stored."""

    producer: str
    write_name: str
    run: str = ""
    """The newest run."""

    ticket: int = 0
    """Its highest ticket."""

    epoch: int | None = None
    """The last that was committed."""

    committed_by: str = ""
    """The run that did."""

    committed_at_us: int = 0
    tokens: str = ""
    """Digest of the tokens that were committed."""

    @staticmethod
    def of(epoch: EpochRecord) -> ProducerRecord:
        """As its last epoch tells it, where its own record is damaged."""
        return ProducerRecord(
            epoch.producer,
            epoch.write_name,
            epoch.run,
            0,
            epoch.epoch,
            epoch.run,
            epoch.committed_at_us,
            epoch.digest,
        )


class StoredEpochs(NamedTuple):
    """What a start finds of one sink's epochs."""

    producers: Iterable[ProducerRecord]
    stages: Iterable[StageRecord]
    staged: Mapping[int, Mapping[tuple[int, int], StagedPage]]
    """Pages by the number of their stage, then by partition and sequence."""


def digest(tokens: Iterable[str]) -> str:
    """What a set of tokens is remembered by."""
    return hashlib.sha256("\n".join(sorted(tokens)).encode()).hexdigest()[:32]


@dataclass(slots=True)
class Producers:
    """The producers of one sink, and what each may do."""

    sink: str
    known: dict[str, ProducerRecord] = field(default_factory=dict)
    _holders: dict[str, str] = field(default_factory=dict)
    """Producer by write name."""

    def recall(self, records: Iterable[ProducerRecord]) -> None:
        """Take in what was stored."""
        for record in sorted(records, key=lambda each: each.committed_at_us):
            self._keep(record)

    def saw(self, stage: StageRecord) -> None:
        """Take in what a stored stage says: its run was there. Who has which name is not changed by that."""
        found = self.known.get(stage.producer) or ProducerRecord(stage.producer, stage.write_name)
        if not found.run or stage.ticket > found.ticket:
            self.known[stage.producer] = replace(found, run=stage.run, ticket=stage.ticket)

    def holder(self, write_name: str) -> str | None:
        """The producer that has a write name."""
        return self._holders.get(write_name)

    def stage(self, claim: Claim) -> bool:
        """Let an attempt stage; True when its run is a newer one, so that what older runs staged is to go.

        Raises ``ProducerChanged``, ``EpochFenced`` or ``AlreadyCommitted``.
        """
        self._check_run(claim)
        found = self.known.get(claim.producer)
        if found is not None and found.epoch is not None:
            if claim.epoch == found.epoch:
                raise AlreadyCommitted(claim.producer, claim.epoch)
            if claim.epoch < found.epoch:
                raise EpochFenced(claim.producer, claim.epoch, self._later(found.epoch))
        newer = found is not None and found.run != claim.run
        self._keep(self._with_run(claim))
        return newer

    def commit(self, claim: Claim, tokens: Sequence[str]) -> bool:
        """Whether the epoch is to be committed; False when it is already. Changes nothing.

        Raises ``ProducerChanged``, ``EpochFenced`` or ``EpochConflict``.
        """
        self._check_run(claim)
        found = self.known.get(claim.producer)
        if found is None or found.epoch is None or claim.epoch > found.epoch:
            return True
        if claim.epoch < found.epoch:
            raise EpochFenced(claim.producer, claim.epoch, self._later(found.epoch))
        if digest(tokens) != found.tokens and claim.run == found.committed_by:
            raise EpochConflict(claim.producer, claim.epoch, "the same run committed it with other tokens")
        return False

    def committed(self, claim: Claim, tokens: Sequence[str], at_us: int) -> ProducerRecord:
        """What is to be remembered once the epoch is committed; see ``keep``.

        Whoever takes a name over has committed later than the one before, whatever the clock says: a start goes by it.
        """
        holder = self.known.get(self._holders.get(claim.write_name, ""))
        if holder is not None and holder.producer != claim.producer:
            at_us = max(at_us, holder.committed_at_us + 1)
        return replace(
            self._with_run(claim),
            epoch=claim.epoch,
            committed_by=claim.run,
            committed_at_us=at_us,
            tokens=digest(tokens),
        )

    def keep(self, record: ProducerRecord) -> None:
        """The commit is durable."""
        now = self.known.get(record.producer)
        if now is not None and now.ticket > record.ticket:  # a newer run has come meanwhile
            record = replace(record, run=now.run, ticket=now.ticket)
        self._keep(record)

    def forget(self, producer: str) -> None:
        """The producer will not come back."""
        found = self.known.pop(producer, None)
        if found is not None and self._holders.get(found.write_name) == producer:
            del self._holders[found.write_name]

    def _check_run(self, claim: Claim) -> None:
        holder = self._holders.get(claim.write_name) if claim.write_name else None
        if holder is not None and holder != claim.producer and not claim.takeover:
            raise ProducerChanged(claim.sink, claim.write_name, holder, claim.producer)
        found = self.known.get(claim.producer)
        if found is not None and found.run != claim.run and claim.ticket < found.ticket:
            raise EpochFenced(claim.producer, claim.epoch, "a newer run of the producer has begun")

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
        if record.write_name and record.epoch is not None:  # a name is had by who has written something
            self._holders[record.write_name] = record.producer
