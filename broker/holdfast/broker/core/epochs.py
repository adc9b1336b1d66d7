"""Epochs as values: what a producer stages, and what a commit names. Who may do so is decided in ``producers``.

A producer is one query's writes to a sink under one name, or one batch.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from holdfast.broker.core.errors import InvalidEpoch
from holdfast.broker.core.settings import is_id

EPOCH_MAX: Final = (1 << 63) - 1
TOKENS_MAX: Final = 100_000
COMMITS_MAX: Final = 64
"""Epochs of one commit."""
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
class Wanted:
    """One epoch of one sink, as a commit names it."""

    claim: Claim
    tokens: tuple[tuple[str, tuple[TokenPart, ...]], ...]

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
