"""Contract of an engine: numbered records in another system, and the checkpoints that replace them.

Owners use one verb that writes: ``create`` adds the record of a position that has none. So of several writers at one
position exactly one succeeds, which `probe` tests before an engine is used. The end of a journal is its first missing
position: records of a slow writer may be beyond it. ``replace`` and ``delete`` are for positions below a checkpoint.

Beside the records there are small named objects and files of checkpoints. Objects that count are created as records
are, and never replaced; ``put_named`` is for those that only inform.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final, Protocol

from forebay.broker.storage.backup.target import Target
from forebay.broker.storage.replication.pieces import Piece


class EngineError(Exception):
    """Any error of an engine."""


class EngineAway(EngineError):
    """No answer, or a refusal: the outcome of the call is unknown. Retry it."""

    event: ClassVar[str] = "does not answer"
    """Event of the log after the word journal."""

    def __init__(self, cause: str, address: str = "") -> None:
        """``address`` begins the text, where it is given; a text that names the journal adds ``cause``."""
        super().__init__(f"{address}: {cause}" if address else cause)
        self.cause: Final = cause
        self.address: Final = address


class EngineFull(EngineAway):
    """The engine has no room, or its quota is used up. Retry once there is room."""

    event = "is full"


class EngineRefused(EngineAway):
    """The engine refuses the login, or a right is missing. Retry once that was changed."""

    event = "refuses access"


class EngineUntrusted(EngineAway):
    """The certificate of the engine is not accepted. Retry once it, or what is trusted, was changed."""

    event = "is not trusted"


def away_of(failure: Exception) -> EngineAway:
    """Return the engine's error from which a failure was raised, else one with its text."""
    cause: BaseException | None = failure
    while cause is not None and not isinstance(cause, EngineAway):
        cause = cause.__cause__
    return EngineAway(str(failure)) if cause is None else type(cause)(cause.cause, cause.address)


class EngineUnsuitable(EngineError):
    """The engine cannot hold a journal: its address is wrong, or two writers both succeed at one position."""


PROBE_RACES: Final = 500
"""Races that find a service which ignores its conditions now and then."""


class Engine(Protocol):
    """Records by position, from 0 on. Calls block, from any thread."""

    @property
    def address(self) -> str:
        """Address, without credentials."""
        ...

    @property
    def durability(self) -> str:
        """Meaning of the confirmation of a record, in words."""
        ...

    @property
    def races(self) -> int:
        """Races of `probe` that show whether creations are atomic."""
        ...

    def create(self, position: int, pieces: Sequence[Piece]) -> bool:
        """Add a record, durably; returns False, without effect, if the position has one.

        Raises ``EngineAway``, after which the record may exist.
        """
        ...

    def read(self, position: int) -> bytes | None:
        """Return a record, None for a position without one. Raises ``EngineAway``."""
        ...

    def peek(self, position: int) -> bytes | None:
        """Return the beginning of a record: its header, and perhaps more. Otherwise as ``read``."""
        ...

    def sizes(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield each position in ``[first, end)`` that has a record, and the bytes of it, by rising positions.

        Raises ``EngineAway``.
        """
        ...

    def replace(self, position: int, pieces: Sequence[Piece]) -> None:
        """Replace a record, or add it, durably. Raises ``EngineAway``, after which the outcome is unknown."""
        ...

    def delete(self, positions: Sequence[int]) -> None:
        """Delete records; those that do not exist are left out.

        Raises ``EngineAway``, after which some may be deleted.
        """
        ...

    def reclaim(self, stop: threading.Event) -> None:
        """Release the space of what was deleted, where a deletion does not; ends early once ``stop`` is set.

        Raises ``EngineAway``.
        """
        ...

    def index(self) -> None:
        """Write an index of all that is here where a process that begins would read everything, if one is due.

        Called every few seconds by processes that serve or follow. Raises ``EngineAway``.
        """
        ...

    def create_named(self, name: str, content: bytes) -> bool:
        """Add a small object `FOLDER/NAME` beside the records, as ``create`` does."""
        ...

    def read_named(self, name: str) -> bytes | None:
        """Return a small object, None if there is none. Raises ``EngineAway``."""
        ...

    def put_named(self, name: str, content: bytes) -> None:
        """Add or replace a small object as a whole; a power loss may undo it. Raises ``EngineAway``."""
        ...

    def delete_named(self, name: str) -> None:
        """Delete a small object that only informs; a missing one is left out. Raises ``EngineAway``."""
        ...

    def names(self, folder: str) -> list[str]:
        """Return the names of the small objects of a folder, as `FOLDER/NAME`. Raises ``EngineAway``."""
        ...

    def files(self) -> Target:
        """Return the place of the files of checkpoints, for one thread."""
        ...

    def free_bytes(self) -> int | None:
        """Return the free bytes of its device, None if it has no such number. Raises ``EngineAway``."""
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
