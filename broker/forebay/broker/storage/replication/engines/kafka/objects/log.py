"""Contract of a log: messages by consecutive offsets, the first of which are deleted now and then."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

from forebay.broker.storage.replication.engine import EngineAway


class OffsetsGone(Exception):
    """The offsets to read were deleted."""


class LogMessage(NamedTuple):
    """A message of the log."""

    offset: int
    key: bytes | None
    value: bytes


Delivered: TypeAlias = Callable[[str | None, int], None]
"""Called with None and the offset of a message that is confirmed, or with the error.

The offset is below 0 where it is not known, as of a message that was sent twice.
"""


class LogCursor(Protocol):
    """Reader of a log. For one thread at a time."""

    def read(self, offset: int) -> list[LogMessage]:
        """Return messages from an offset on; none if there is none within the time limit of the log.

        Raises ``OffsetsGone`` and ``EngineAway``.
        """
        ...

    def close(self) -> None:
        """End its connections."""
        ...


class Log(Protocol):
    """Log of one topic. Its methods may be called by any thread."""

    @property
    def tail(self) -> LogCursor:
        """Cursor for what was appended last."""
        ...

    def read(self, offset: int, is_known: Callable[[], bool]) -> list[LogMessage] | None:
        """Return messages that were appended at any time, from an offset on or some before it.

        As ``LogCursor.read``, but for any thread. A call may have to wait for another one that reads near the offset;
        returns None without a read if ``is_known`` is true then.
        """
        ...

    def ends(self) -> tuple[int, int]:
        """Return the first offset, and the one after the last confirmed message. Raises ``EngineAway``."""
        ...

    def append(self, key: bytes, value: bytes, delivered: Delivered) -> None:
        """Append a message; ``delivered`` is called by another thread. Raises ``EngineAway``."""
        ...

    def delete_before(self, offset: int) -> None:
        """Delete the messages below an offset. Raises ``EngineAway``."""
        ...

    def away(self, what: str) -> EngineAway:
        """Return the error for a request that failed or has no answer."""
        ...
