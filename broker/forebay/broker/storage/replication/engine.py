"""Contract of an engine: numbered records in another system, each created once and never changed.

An engine has one verb that writes: ``create`` adds the record of a position that has none. So of several writers at one
position exactly one succeeds, which `probe` tests before an engine is used. The end of a journal is its first missing
position: records of a slow writer may be behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from forebay.broker.storage.replication.batch import Piece


class EngineError(Exception):
    """Any error of an engine."""


class EngineAway(EngineError):
    """No answer, or a refusal: the outcome of the call is unknown. Retry it."""


class EngineFull(EngineAway):
    """The engine has no room, or its quota is used up. Retry once there is room."""


class EngineUnsuitable(EngineError):
    """The engine cannot hold a journal: its address is wrong, or two writers both succeed at one position."""


class Engine(Protocol):
    """Records by position, from 0 on. Calls block, from any thread."""

    @property
    def address(self) -> str:
        """Address, without credentials."""
        ...

    def create(self, position: int, pieces: Sequence[Piece]) -> bool:
        """Add a record, durably; returns False, without effect, if the position has one.

        Raises ``EngineAway``, after which the record may exist.
        """
        ...

    def read(self, position: int) -> bytes | None:
        """Return a record, None for a position without one. Raises ``EngineAway``."""
        ...

    def race(self, name: str) -> bool:
        """Create an empty object beside the journal, as ``create`` does; for `probe`. Raises ``EngineAway``."""
        ...

    def end_races(self, names: Sequence[str]) -> None:
        """Delete the objects of `probe`. Raises ``EngineAway``."""
        ...


NAME_DIGITS: Final = 20


def name_of(position: int) -> str:
    """Return the name of a record, which sorts as its position does."""
    return f"{position:0{NAME_DIGITS}d}"
