"""Values of shards."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shard:
    """Shard of a fleet and its owner, as a broker knows them: a hint, the owner may be lost since."""

    name: str
    """Name; empty for the only shard of a journal without names, and for a broker without a journal."""

    endpoint: str
    """HOST:PORT of the owner."""

    owner_epoch: int
    """Epoch of the owner: a takeover begins a higher one. 0 for a broker without a journal."""

    journal: str = ""
    """Identity of its journal, which a recreated shard of its name does not have; empty if not known."""

    def is_behind(self, other: Shard) -> bool:
        """Return True if ``other`` names a later owner of the same shard, not of a former one of its name."""
        is_another = "" not in {self.journal, other.journal} and self.journal != other.journal
        return self.owner_epoch < other.owner_epoch and not is_another


@dataclass(frozen=True, slots=True)
class RepeatedSink:
    """Sinks of one name in several shards, such as those of brokers that were imported as shards.

    Each keeps its records. Clients of the fleet reach that of the first shard only.
    """

    name: str
    shards: tuple[Shard, ...]
    """Shards that have it; the first is that which clients of the fleet use."""

    @property
    def advice(self) -> str:
        """Advice: how to be left with one of them."""
        other = self.shards[-1]
        return (
            "process what you need of the other one with the address of its owner alone, then delete it there: "
            f"forebay sink delete {self.name} --endpoint {other.endpoint}"
        )

    def __str__(self) -> str:
        """Return a sentence."""
        names = ", ".join(shard.name for shard in self.shards)
        return f"sink {self.name!r} is in shards {names}: clients of the fleet use that of {self.shards[0].name}"
