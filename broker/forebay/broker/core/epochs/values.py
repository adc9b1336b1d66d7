"""Epochs as values: what a producer stages, and what a commit names. Who may do so is decided in ``producers``.

A producer is one query's writes to a sink under one name, or one batch.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from itertools import chain
from typing import Final, NamedTuple

from forebay.broker.core.errors import InvalidEpoch
from forebay.broker.core.settings import is_id

EPOCH_MAX: Final = (1 << 63) - 1
TOKENS_MAX: Final = 100_000
RECORDS_MAX: Final = (1 << 63) - 1
COMMITS_MAX: Final = 64
"""Epochs of one commit."""
_NAME: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
SUMMARY_BYTES: Final = 16
_DIGEST: Final = re.compile(r"[A-Za-z0-9._-]{1,16}:[A-Za-z0-9]{1,64}")


class EpochCheck(IntEnum):
    """Comparison of a repeated epoch with the committed one. The values are those of the wire."""

    RECORDS = 0
    """Equal number of records."""

    CONTENT = 1
    """Equal number of records and equal digest."""

    NONE = 2
    """No comparison: the committed epoch stays, whatever the repeat holds."""


@dataclass(frozen=True, slots=True)
class Content:
    """Number of records of an epoch and a digest of them, independent of their order, pages and partitions."""

    records: int
    digest: str = ""
    """``KIND:HEX``; empty where it is not known. Digests of different kinds are not compared."""

    def checked(self) -> Content:
        """Return it, or raise ``InvalidEpoch``."""
        if self.records > RECORDS_MAX:
            raise InvalidEpoch(f"an epoch has up to {RECORDS_MAX} records", field="commits.content.records")
        if self.digest and _DIGEST.fullmatch(self.digest) is None:
            raise InvalidEpoch(
                "a digest is KIND:HEX, 1 to 16 of [A-Za-z0-9._-] and 1 to 64 of [A-Za-z0-9]",
                field="commits.content.digest",
            )
        return self

    def differs(self, other: Content, check: EpochCheck) -> bool:
        """Return True when ``check`` does not accept ``other`` as the same epoch."""
        if check is EpochCheck.NONE:
            return False
        if self.records != other.records:
            return True
        return check is EpochCheck.CONTENT and not self.same_digest(other)

    def same_digest(self, other: Content) -> bool:
        """Return False when both digests are known, of one kind, and not equal."""
        kinds = {self.digest.partition(":")[0], other.digest.partition(":")[0]}
        return "" in kinds or len(kinds) > 1 or self.digest == other.digest


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
class StagedSummary:
    """What a commit says that one token has staged in all partitions: as strict as its parts, and of one size."""

    pages: int
    records: int
    digest: bytes

    @staticmethod
    def of(parts: Iterable[TokenPart]) -> StagedSummary:
        """Return the summary of parts, of which each partition is there once."""
        return StagedSummary.counted((part.partition, part.pages, part.records) for part in parts)

    @staticmethod
    def counted(parts: Iterable[tuple[int, int, int]]) -> StagedSummary:
        """Return the summary of parts as partition, pages and records."""
        held = sorted([part for part in parts if part[1]])
        pages, records = sum([part[1] for part in held]), sum([part[2] for part in held])
        packed = _summed(len(held)).pack(*chain.from_iterable(held))
        return StagedSummary(pages, records, hashlib.sha256(packed).digest()[:SUMMARY_BYTES])


@cache
def _summed(parts: int) -> struct.Struct:
    """Return the layout of so many parts: there are as many layouts as a sink may have partitions."""
    return struct.Struct(">" + "IQQ" * parts)


Staged = tuple[TokenPart, ...] | StagedSummary
"""What a commit says that one token has staged."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One epoch of one sink, as a commit names it."""

    claim: Claim
    tokens: tuple[tuple[str, Staged], ...]
    content: Content | None = None
    """All records of the epoch, those of attempts that were told that it is committed included; None: not known."""

    check: EpochCheck = EpochCheck.RECORDS
    """Comparison with the committed epoch, if this one is a repeat."""

    @property
    def names(self) -> list[str]:
        """The tokens."""
        return [token for token, _ in self.tokens]

    def checked(self) -> Wanted:
        """Return it, or raise ``InvalidEpoch`` for what no commit may name."""
        self.claim.checked("commits")
        if len(self.tokens) > TOKENS_MAX:
            raise InvalidEpoch(
                f"an epoch has up to {TOKENS_MAX} tokens, not {len(self.tokens)}", field="commits.tokens"
            )
        for name in self.names:
            checked_token(name, "commits.tokens.token")
        if len(set(self.names)) != len(self.tokens):
            raise InvalidEpoch("a token is named twice", field="commits.tokens.token")
        if self.content is not None:
            self.content.checked()
        return self


def check_apart(commits: Sequence[Wanted]) -> None:
    """Raise ``InvalidEpoch`` unless there is something to commit, and each producer of a sink is there once."""
    if not 1 <= len(commits) <= COMMITS_MAX:
        raise InvalidEpoch(f"a call commits 1 to {COMMITS_MAX} epochs, not {len(commits)}", field="commits")
    pairs = {(each.claim.sink, each.claim.producer) for each in commits}
    names = [(each.claim.sink, each.claim.write_name) for each in commits if each.claim.write_name]
    if len(pairs) != len(commits) or len(set(names)) != len(names):
        raise InvalidEpoch("a producer, or a write name, of a sink is named twice", field="commits")


@dataclass(frozen=True, slots=True)
class EpochPart:
    """Where the pages of an epoch stand in one partition, those of all its tokens."""

    partition: int
    base: int
    """Offset of the first record."""

    records: int
    pages: int
    size: int
    """Bytes of their bodies."""

    first: int
    """Lowest page number."""

    last: int
    """Highest page number."""

    @property
    def end(self) -> int:
        return self.base + self.records


class StagePart(NamedTuple):
    """What one token has in one partition of an epoch. Stored beside the epoch, for repairs of the index."""

    stage: int
    """Number of the stage that the pages were written for: it stands in their headers."""

    records: int
    pages: int


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
    """By partition."""

    content_digest: str = ""
    """Of the records; empty where the commit told none."""

    @property
    def content(self) -> Content:
        """Number of records and their digest."""
        return Content(sum(part.records for part in self.parts), self.content_digest)


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

    records: int | None = None
    """Of the last epoch; None where a version stored it that did not count them."""

    content_digest: str = ""
    """Of these records; empty where the commit told none."""

    repeated_by: str = ""
    """The last run that committed the same epoch again with other tokens."""

    repeated_tokens: str = ""
    """Digest of those tokens."""

    @property
    def content(self) -> Content | None:
        """Content of the last epoch; None where it is not known."""
        return None if self.records is None else Content(self.records, self.content_digest)

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
            epoch.content.records,
            epoch.content_digest,
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
