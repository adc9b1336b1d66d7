"""Values of epochs: stages of a producer, and the content of a commit. ``producers`` has the rules.

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

from forebay.broker.core.errors import BrokerError, InvalidValue, quoted
from forebay.broker.core.names import ID_FORM, is_id
from forebay.errors.reasons import Reason

EPOCH_MAX: Final = (1 << 63) - 1
TOKENS_MAX: Final = 100_000
RECORDS_MAX: Final = (1 << 63) - 1
COMMITS_MAX: Final = 64
"""Epochs of one commit."""
_NAME: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
SUMMARY_BYTES: Final = 16
_DIGEST_FORM: Final = "KIND:HEX, 1 to 16 of [A-Za-z0-9._-] and 1 to 64 of [A-Za-z0-9]"
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
    """Number of records of an epoch and a digest of them.

    Both are independent of the order of the records, and of their pages and partitions.
    """

    records: int
    digest: str = ""
    """``KIND:HEX``; empty if unknown. Digests of different kinds are not compared."""

    def checked(self) -> Content:
        """Return it, or raise ``INVALID_EPOCH``."""
        if self.records > RECORDS_MAX:
            raise InvalidValue(Reason.INVALID_EPOCH, "commits.content.records", self.records, f"up to {RECORDS_MAX}")
        if self.digest and _DIGEST.fullmatch(self.digest) is None:
            raise InvalidValue(Reason.INVALID_EPOCH, "commits.content.digest", quoted(self.digest), _DIGEST_FORM)
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
    """Epoch and writer that a stage or a commit names."""

    sink: str
    producer: str
    write_name: str
    """Empty for a batch."""

    epoch: int
    run: str
    ticket: int
    takeover: bool = False

    def checked(self, field_name: str) -> Claim:
        """Return it, or raise ``INVALID_EPOCH`` for the first wrong name; ``field_name`` is its origin."""
        named = {"producer": self.producer, "run": self.run}
        if self.write_name:
            named["write_name"] = self.write_name
        for name, text in named.items():
            if _NAME.fullmatch(text) is None:
                raise InvalidValue(
                    Reason.INVALID_EPOCH, f"{field_name}.{name}", quoted(text), "1 to 128 of [A-Za-z0-9._:-]"
                )
        if self.epoch > EPOCH_MAX:
            raise InvalidValue(Reason.INVALID_EPOCH, f"{field_name}.epoch", self.epoch, f"up to {EPOCH_MAX}")
        return self


def checked_token(token: str, field_name: str) -> str:
    """Return a token, or raise ``INVALID_EPOCH``."""
    if not is_id(token):
        raise InvalidValue(Reason.INVALID_EPOCH, field_name, quoted(token), ID_FORM)
    return token


def checked_application(application: str, field_name: str) -> str:
    """Return the application of a producer, or raise ``INVALID_EPOCH``."""
    if application and _NAME.fullmatch(application) is None:
        allowed = "empty, or 1 to 128 of [A-Za-z0-9._:-]"
        raise InvalidValue(Reason.INVALID_EPOCH, field_name, quoted(application), allowed)
    return application


@dataclass(frozen=True, slots=True)
class StagedPage:
    """Stored page that no reader sees yet."""

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
    """Stage of one attempt, as it is stored. Its pages are stored beside it."""

    number: int
    """Number in the store; never reused."""

    producer: str
    write_name: str
    epoch: int
    token: str
    run: str
    ticket: int


@dataclass(frozen=True, slots=True)
class TokenPart:
    """Pages of one token in one partition, as a commit states them."""

    partition: int
    pages: int
    records: int


@dataclass(frozen=True, slots=True)
class StagedSummary:
    """Summary of the pages of one token in all partitions, as a commit states them.

    It is as strict as the parts, and of constant size.
    """

    pages: int
    records: int
    digest: bytes

    @staticmethod
    def of(parts: Iterable[TokenPart]) -> StagedSummary:
        """Return the summary of parts, one per partition."""
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
    """Return the layout of a number of parts. There are at most as many layouts as partitions."""
    return struct.Struct(">" + "IQQ" * parts)


Staged = tuple[TokenPart, ...] | StagedSummary
"""Pages of one token, as a commit states them."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One epoch of one sink, as a commit names it."""

    claim: Claim
    tokens: tuple[tuple[str, Staged], ...]
    content: Content | None = None
    """Content of the epoch, including attempts that found it committed; None if unknown."""

    check: EpochCheck = EpochCheck.RECORDS
    """Comparison with the committed epoch, if this one is a repeat."""

    @property
    def names(self) -> list[str]:
        """Names of the tokens."""
        return [token for token, _ in self.tokens]

    def checked(self) -> Wanted:
        """Return it, or raise ``INVALID_EPOCH`` for a value that a commit may not have."""
        self.claim.checked("commits")
        if len(self.tokens) > TOKENS_MAX:
            raise InvalidValue(
                Reason.INVALID_EPOCH, "commits.tokens", f"{len(self.tokens)} tokens", f"up to {TOKENS_MAX}"
            )
        for name in self.names:
            checked_token(name, "commits.tokens.token")
        if len(set(self.names)) != len(self.tokens):
            raise BrokerError(Reason.INVALID_EPOCH, "a token is named twice", field="commits.tokens.token")
        if self.content is not None:
            self.content.checked()
        return self


def check_apart(commits: Sequence[Wanted]) -> None:
    """Raise ``INVALID_EPOCH`` unless there is an epoch to commit, and each producer of a sink occurs once."""
    if not 1 <= len(commits) <= COMMITS_MAX:
        raise InvalidValue(Reason.INVALID_EPOCH, "commits", f"{len(commits)} epochs", f"1 to {COMMITS_MAX}")
    pairs = {(each.claim.sink, each.claim.producer) for each in commits}
    names = [(each.claim.sink, each.claim.write_name) for each in commits if each.claim.write_name]
    if len(pairs) != len(commits) or len(set(names)) != len(names):
        raise BrokerError(
            Reason.INVALID_EPOCH, "a producer, or a write name, of a sink is named twice", field="commits"
        )


@dataclass(frozen=True, slots=True)
class EpochPart:
    """Pages of an epoch in one partition, of all its tokens."""

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
    """Pages of one token in one partition of an epoch. Stored beside the epoch, to repair the index."""

    stage: int
    """Number of the stage that the pages were written for, as in their headers."""

    records: int
    pages: int


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """Committed epoch, stored while one of its pages lives or while it is the last one of its producer."""

    producer: str
    write_name: str
    epoch: int
    run: str
    committed_at_us: int
    tokens: int
    digest: str
    """Digest of the tokens."""

    parts: tuple[EpochPart, ...]
    """By partition."""

    content_digest: str = ""
    """Digest of the records; empty if the commit stated none."""

    @property
    def content(self) -> Content:
        """Number of records and their digest."""
        return Content(sum(part.records for part in self.parts), self.content_digest)


@dataclass(frozen=True, slots=True)
class ProducerRecord:
    """Producer as it is stored."""

    producer: str
    write_name: str
    run: str = ""
    """The newest run."""

    ticket: int = 0
    """Its highest ticket."""

    epoch: int | None = None
    """Last committed epoch."""

    committed_by: str = ""
    """Run that committed it."""

    committed_at_us: int = 0
    tokens: str = ""
    """Digest of the tokens that were committed."""

    records: int | None = None
    """Records of the last epoch; None if the version that stored it did not count them."""

    content_digest: str = ""
    """Digest of these records; empty if the commit stated none."""

    repeated_by: str = ""
    """Last run that committed the same epoch again with other tokens."""

    repeated_tokens: str = ""
    """Digest of those tokens."""

    @property
    def content(self) -> Content | None:
        """Content of the last epoch; None where it is not known."""
        return None if self.records is None else Content(self.records, self.content_digest)

    @staticmethod
    def of(epoch: EpochRecord) -> ProducerRecord:
        """Return the producer as described by its last epoch, where its own record is damaged."""
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
    """Epochs of one sink that a start finds."""

    producers: Iterable[ProducerRecord]
    stages: Iterable[StageRecord]
    staged: Mapping[int, Mapping[tuple[int, int], StagedPage]]
    """Pages by the number of their stage, then by partition and sequence."""


def digest(tokens: Iterable[str]) -> str:
    """Return the digest of a set of tokens."""
    return hashlib.sha256("\n".join(sorted(tokens)).encode()).hexdigest()[:32]
