"""Epochs as values: stages, tokens, commits and committed epochs.

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

from forebay.client.errors import FailedPrecondition
from forebay.errors.reasons import Reason

PARTS_NAMED_MAX: Final = 8
"""Maximum number of partitions that a token lists; above it, a summary replaces the list."""
_SUMMARY_BYTES: Final = 16
_SUMMED: Final = struct.Struct(">IQQ")


def random_token() -> str:
    """Return a globally unique token."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class Stage:
    """Staging target of a publisher: one attempt to write a part of an epoch."""

    producer: str
    """Id of the producer: constant over all runs of a query, or unique to a batch.

    1 to 128 characters of ``[A-Za-z0-9._:-]``.
    """

    epoch: int
    """Number of the epoch, from 0."""

    run: str
    """Id of the run of the producer: 1 to 128 characters of ``[A-Za-z0-9._:-]``."""

    ticket: int
    """Ticket of the run, from ``Client.epochs.take_ticket``; the run with the higher ticket is newer."""

    write_name: str = ""
    """Name under which the sink remembers a streaming producer; empty for a batch."""

    token: str = field(default_factory=random_token)
    """Unique id of this attempt; random by default."""

    takeover: bool = False
    """The producer takes over ``write_name`` from another producer."""

    incarnation: str = ""
    """Required incarnation of the sink; staging in another one is rejected. Empty accepts any."""

    application: str = ""
    """Application of the producer, shown with it: up to 128 characters of ``[A-Za-z0-9._:-]``."""


@dataclass(frozen=True, slots=True)
class StagedPart:
    """Pages that one token staged in one partition."""

    partition: int
    pages: int
    records: int


@dataclass(frozen=True, slots=True)
class StagedSummary:
    """Summary of the pages that one attempt staged; its size is independent of their number."""

    pages: int
    records: int
    digest: bytes
    """Digest of the parts, as defined by the wire contract (``StagedSummary``)."""

    @classmethod
    def of(cls, parts: Iterable[StagedPart]) -> Self:
        """Return the summary of ``parts``, in which each partition occurs at most once."""
        held = sorted((part.partition, part.pages, part.records) for part in parts if part.pages)
        packed = b"".join(_SUMMED.pack(*part) for part in held)
        records = sum(part[2] for part in held)
        return cls(sum(part[1] for part in held), records, sha256(packed).digest()[:_SUMMARY_BYTES])


@dataclass(frozen=True, slots=True)
class StagedToken:
    """Staged attempt, in the form in which a commit names it."""

    token: str
    parts: tuple[StagedPart, ...] = ()
    """Parts, one per partition; empty for an attempt without records, or with a summary."""

    incarnation: str = ""
    """Incarnation of the sink in which it was staged; a commit in another one is rejected."""

    summary: StagedSummary | None = None
    """Summary in place of ``parts``, if there are many."""

    @property
    def records(self) -> int:
        """Number of records in all partitions."""
        return self.summary.records if self.summary is not None else sum(part.records for part in self.parts)

    @property
    def summarized(self) -> StagedToken:
        """Equivalent token with a summary if it has many parts: small to send and to store."""
        if len(self.parts) <= PARTS_NAMED_MAX:
            return self
        return StagedToken(self.token, incarnation=self.incarnation, summary=StagedSummary.of(self.parts))


class EpochCheck(IntEnum):
    """Comparison of a commit with an epoch that is committed already under other tokens."""

    RECORDS = 0
    """Require the same number of records."""

    CONTENT = 1
    """Require the same number of records and, if both have a digest of the same kind, the same digest."""

    NONE = 2
    """Compare nothing: the committed epoch stays, and records that only the repeat has are left out."""


@dataclass(frozen=True, slots=True)
class EpochContent:
    """Content of an epoch, independent of order, pages and partitions."""

    records: int
    """Number of records, including those of attempts that ended with ``AlreadyCommitted``."""

    digest: str = ""
    """Digest made by the producer, ``KIND:HEX``; empty for none."""


@dataclass(frozen=True, slots=True)
class EpochCommit:
    """Commit request for one epoch of one producer in one sink."""

    sink: str
    producer: str
    epoch: int
    run: str
    ticket: int
    tokens: tuple[StagedToken, ...] = ()
    """Tokens to commit; their records are stored in this order. Empty for an epoch without records."""

    write_name: str = ""
    takeover: bool = False
    content: EpochContent | None = None
    """Content of the epoch; ``None`` if unknown, in which case a repeat is not compared."""

    check: EpochCheck = EpochCheck.RECORDS
    """Comparison with the epoch if it is already committed."""

    incarnation: str = ""
    """Incarnation in which the tokens were staged; the commit is rejected in another one."""

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
        """Return the commit of the tokens staged for the epoch of ``stage``.

        Raises ``STAGED_INCOMPLETE`` for tokens that were staged in two incarnations of the sink: it was deleted and
        recreated in between.
        """
        every = tuple(tokens)
        named = [one for one in (stage.incarnation, *(token.incarnation for token in every)) if one]
        found = list(dict.fromkeys(named)) or [""]
        if len(found) > 1:
            raise FailedPrecondition(
                f"sink {sink!r} was deleted and recreated while the epoch was staged: a part of it is in incarnation "
                f"{found[0]!r}, another in {found[1]!r}. Stage all of it again",
                reason=Reason.STAGED_INCOMPLETE,
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
    """Position of an epoch's records in one partition."""

    partition: int
    first_offset: int
    """Offset of the first record; the others follow contiguously."""

    records: int
    pages: int


@dataclass(frozen=True, slots=True)
class Epoch:
    """A committed epoch."""

    sink: str
    producer: str
    epoch: int
    run: str
    """Run that committed the epoch."""

    committed_at: datetime
    """Time of the commit, which is also the acceptance time of its records."""

    parts: tuple[EpochPart, ...]
    """Parts by partition.

    Empty for an epoch without records, and for one whose details are no longer kept.
    """

    tokens: int
    """Number of committed tokens."""

    digest: str = ""
    """Digest of its records, as given by the commit; empty for none."""


@dataclass(frozen=True, slots=True)
class CommittedEpochs:
    """Result of a commit."""

    epochs: tuple[Epoch, ...]
    """Epochs in the order of the commits."""

    already_committed: bool
    """The epochs had been committed before; nothing was changed now."""


@dataclass(frozen=True, slots=True)
class Producer:
    """Producer that a sink remembers."""

    producer: str
    write_name: str
    """Write name; empty for a batch."""

    last_epoch: int | None
    """Last committed epoch; ``None`` before the first commit."""

    committed_at: datetime | None
    """Time of the last commit."""

    run: str
    """Newest known run."""

    ticket: int
    """Highest ticket of the producer."""

    staged_tokens: int
    """Number of tokens with staged, uncommitted pages."""

    staged_records: int
    staged_bytes: int
    staged_at: datetime | None
    """Time at which the oldest of them was opened, or found at the start of the broker."""

    application: str
    """Application that the producer named since the start of the broker, or empty."""
