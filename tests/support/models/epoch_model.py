"""Model of staging in one sink: pages by token, and the effect of a commit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from forebay.broker.core.epochs.values import TokenPart
from tests.support.pages.samples import body

Named = tuple[str, tuple[TokenPart, ...]]


@dataclass(slots=True)
class Token:
    """One attempt's pages."""

    producer: str
    epoch: int
    token: str
    run: int
    number: int
    """Of its stage."""

    pages: dict[int, list[list[bytes]]] = field(default_factory=dict)
    """Values of each page, by partition."""

    def named(self, *, more: int = 0) -> Named:
        """As a commit names it; with ``more`` records than there are in the first partition."""
        parts = [TokenPart(p, len(found), sum(map(len, found))) for p, found in sorted(self.pages.items())]
        if more:
            first = parts[0] if parts else TokenPart(0, 0, 0)
            parts[:1] = [TokenPart(first.partition, first.pages or 1, first.records + more)]
        return self.token, tuple(parts)

    @property
    def usage(self) -> tuple[int, int]:
        """Records and bytes."""
        every = [page for pages in self.pages.values() for page in pages]
        return sum(map(len, every)), sum(len(body(page)) for page in every)


@dataclass(slots=True)
class Staged:
    """All that is staged in a sink."""

    tokens: list[Token] = field(default_factory=list)

    def of(self, producer: str, epoch: int, run: int | None = None) -> list[Token]:
        """The tokens of an epoch, of one run or of all."""
        return [
            each for each in self.tokens if (each.producer, each.epoch) == (producer, epoch) and run in {None, each.run}
        ]

    def throw_away(self, gone: Callable[[Token], bool]) -> None:
        """Some are not there any more."""
        self.tokens = [each for each in self.tokens if not gone(each)]

    @property
    def usage(self) -> tuple[int, int]:
        """Records and bytes."""
        found = [each.usage for each in self.tokens]
        return sum(records for records, _ in found), sum(size for _, size in found)
