"""Epochs as values: what is staged, what a commit names, what became of it.

A *producer* writes *epochs*, numbers that rise. An attempt to write a part of an epoch stages pages under a *token* of
its own; the commit names the tokens that count.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from hashlib import sha256
from typing import Final, Self

from forebay.client.errors import StagedIncomplete

PARTS_NAMED_MAX: Final = 8
"""A token with more partitions is named by its summary."""
_SUMMARY_BYTES: Final = 16
_SUMMED: Final = struct.Struct(">IQQ")


def random_token() -> str:
    """Return a token that nobody else has."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class Stage:
    """What a publisher stages for: one attempt to write a part of an epoch."""

    producer: str
    """Who writes: the same in every run of a query, or an id made for one batch. 1 to 128 of ``[A-Za-z0-9._:-]``."""

    epoch: int
    """Number of the epoch, from 0."""

    run: str
    """Names the run of the producer. 1 to 128 of ``[A-Za-z0-9._:-]``."""

    ticket: int
    """From ``Client.epochs.take_ticket``, taken by that run: the run with the higher one is the newer."""

    write_name: str = ""
    """What the sink remembers a streaming producer by; empty for a batch."""

    token: str = field(default_factory=random_token)
    """Names this attempt; random unless it is given."""

    takeover: bool = False
    """The producer takes ``write_name`` over from another one."""

    incarnation: str = ""
    """Of the sink that is meant: another one of that name is refused. Empty for the one that is there."""


@dataclass(frozen=True, slots=True)
class StagedPart:
    """Pages that one token staged in one partition."""

    partition: int
    pages: int
    records: int


@dataclass(frozen=True, slots=True)
class StagedSummary:
    """What one attempt staged in all partitions together: of one size, however many they are."""

    pages: int
    records: int
    digest: bytes
    """Of the parts, see the wire contract."""

    @classmethod
    def of(cls, parts: Iterable[StagedPart]) -> Self:
        """Return the summary of parts, of which each partition is there once."""
        held = sorted((part.partition, part.pages, part.records) for part in parts if part.pages)
        packed = b"".join(_SUMMED.pack(*part) for part in held)
        records = sum(part[2] for part in held)
        return cls(sum(part[1] for part in held), records, sha256(packed).digest()[:_SUMMARY_BYTES])


@dataclass(frozen=True, slots=True)
class StagedToken:
    """What one attempt staged, as the commit has to name it."""

    token: str
    parts: tuple[StagedPart, ...] = ()
    """Each partition once; empty for an attempt without a record, and for one with a summary."""

    incarnation: str = ""
    """Of the sink that it was staged in; a commit is for no other one of that name."""

    summary: StagedSummary | None = None
    """Instead of parts, where they are many."""

    @property
    def records(self) -> int:
        """Records in all partitions."""
        return self.summary.records if self.summary is not None else sum(part.records for part in self.parts)

    @property
    def summarized(self) -> StagedToken:
        """The same with a summary, where it has many parts: small to send and to keep."""
        if len(self.parts) <= PARTS_NAMED_MAX:
            return self
        return StagedToken(self.token, incarnation=self.incarnation, summary=StagedSummary.of(self.parts))


class EpochCheck(IntEnum):
    """Comparison of a commit with an epoch that is committed already under other tokens."""

    RECORDS = 0
    """They have the same number of records."""

    CONTENT = 1
    """They have the same number of records and, where both have a digest of one kind, the same digest."""

    NONE = 2
    """Nothing is compared: what was committed stays, and what only the repeat has is left out."""


@dataclass(frozen=True, slots=True)
class EpochContent:
    """All records of an epoch, whatever their order, pages and partitions."""

    records: int
    """Those of attempts that ended with ``AlreadyCommitted`` included."""

    digest: str = ""
    """``KIND:HEX``, made by the producer; empty for none."""


@dataclass(frozen=True, slots=True)
class EpochCommit:
    """One epoch of one producer in one sink, to be committed."""

    sink: str
    producer: str
    epoch: int
    run: str
    ticket: int
    tokens: tuple[StagedToken, ...] = ()
    """Those that count; their records follow each other in this order. None for an epoch without a record."""

    write_name: str = ""
    takeover: bool = False
    content: EpochContent | None = None
    """What the epoch contains; ``None``: not known, and a repeat of it is not compared."""

    check: EpochCheck = EpochCheck.RECORDS
    """Comparison with the epoch when it is committed already."""

    incarnation: str = ""
    """Of the sink that the tokens were staged in: in another one of that name nothing is committed."""

    @classmethod
    def of(
        cls,
        sink: str,
        stage: Stage,
        tokens: Iterable[StagedToken],
        *,
        content: EpochContent | None = None,
        check: EpochCheck = EpochCheck.RECORDS,
    ) -> Self:
        """Return the commit of what was staged for the epoch that ``stage`` belongs to.

        Raises ``StagedIncomplete`` for tokens that were staged in two incarnations of the sink: it was deleted and made
        anew in between.
        """
        every = tuple(tokens)
        named = [one for one in (stage.incarnation, *(token.incarnation for token in every)) if one]
        found = list(dict.fromkeys(named)) or [""]
        if len(found) > 1:
            raise StagedIncomplete(
                f"sink {sink!r} was deleted and made anew while the epoch was staged: a part of it is in incarnation "
                f"{found[0]!r}, another in {found[1]!r}. Stage all of it again",
                facts={"sink": sink, "named": found[0], "current": found[1]},
            )
        return cls(
            sink=sink,
            producer=stage.producer,
            epoch=stage.epoch,
            run=stage.run,
            ticket=stage.ticket,
            tokens=every,
            write_name=stage.write_name,
            takeover=stage.takeover,
            content=content,
            check=check,
            incarnation=found[0],
        )


@dataclass(frozen=True, slots=True)
class EpochPart:
    """Where an epoch's records of one partition stand."""

    partition: int
    first_offset: int
    """Offset of the first record; the others follow without a gap."""

    records: int
    pages: int


@dataclass(frozen=True, slots=True)
class Epoch:
    """A committed epoch."""

    sink: str
    producer: str
    epoch: int
    run: str
    """The run that committed it."""

    committed_at: datetime
    """When it became visible: the acceptance time of its records."""

    parts: tuple[EpochPart, ...]
    """Its records, by partition. Empty for an epoch without any, and for one whose details are no longer kept."""

    tokens: int
    """Number of tokens that it was made of."""

    digest: str = ""
    """Of its records, as its commit gave it; empty for none."""


@dataclass(frozen=True, slots=True)
class CommittedEpochs:
    """What a commit led to."""

    epochs: tuple[Epoch, ...]
    """In the order of the commits."""

    already_committed: bool
    """They had been committed before; nothing was changed now."""


@dataclass(frozen=True, slots=True)
class Producer:
    """A producer that a sink remembers."""

    producer: str
    write_name: str
    """Empty for that of a batch."""

    last_epoch: int | None
    """The last one that was committed; ``None`` before the first."""

    committed_at: datetime | None
    """When that was."""

    run: str
    """The newest run that was seen."""

    ticket: int
    """Its highest ticket."""

    staged_tokens: int
    """Tokens with pages staged and not committed."""

    staged_records: int
    staged_bytes: int
