"""Shards of a fleet: their names, and the hints at their owners.

A *fleet* is the brokers with one address of a journal. Each of its named shards has a journal of its own below that
address. The *directory* of the fleet has one hint per shard: only a hint, because an owner may be lost at any time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

SHARD_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
SHARDS_MAX: Final = 256
"""Shards of a fleet that are read from its directory, by their names."""


@dataclass(frozen=True, slots=True)
class ShardHint:
    """Owner of a shard, as it was when it began to serve."""

    shard: str
    """Name of the shard; empty for the only one of a journal without names."""

    endpoint: str
    """HOST:PORT of the owner."""

    epoch: int
    """Epoch of the owner: of two hints at one shard, with the same journal, the higher one counts."""

    journal: str = ""
    """Identity of its journal, which a recreated shard of its name does not have; empty if not known."""

    is_joined: bool = False
    """True once all brokers know the name of the shard, so that it may create sinks."""

    def is_behind(self, other: ShardHint) -> bool:
        """Return True if ``other`` names a later owner of the same shard, not of a former one of its name."""
        return self.epoch < other.epoch and not self.is_another(other)

    def is_another(self, other: ShardHint) -> bool:
        """Return True if ``other`` names an owner of another shard with the same name."""
        return "" not in {self.journal, other.journal} and self.journal != other.journal


class DirectoryAway(Exception):
    """The directory does not answer, or refuses. Retry it."""


class Directory(Protocol):
    """Hints at the owners of a fleet. Calls block, from any thread, and raise ``DirectoryAway``."""

    def read(self) -> Sequence[ShardHint]:
        """Return the hints by the names of their shards, at most ``SHARDS_MAX``."""
        ...

    def put(self, hint: ShardHint) -> None:
        """Add or replace the hint of a shard."""
        ...
