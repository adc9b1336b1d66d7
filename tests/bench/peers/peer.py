"""Contract of the systems that are compared."""

from __future__ import annotations

from typing import Protocol

from tests.bench.values import Sample


class Peer(Protocol):
    """A running broker and its client in this process. Every measurement ends with the last confirmation."""

    name: str
    pid: int
    """Process of the broker."""

    def publish(self, way: str, count: int) -> Sample:
        """Publish records into a new topic in a way of ``tests.bench.small.ways``."""

    def read(self, way: str, count: int) -> Sample:
        """Read a topic that holds so many records in one partition; its publication is not measured."""

    def one_by_one(self, count: int) -> list[float]:
        """Return the seconds of each record, sent after the confirmation of the one before."""

    def together(self, callers: int, count: int) -> Sample:
        """Let threads send ``count`` records each, each after the confirmation of its last one."""
