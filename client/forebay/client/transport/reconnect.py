"""Decision whether a publisher or subscriber opens another stream after one that broke, and when.

Retryable errors are retried as ``ClientSettings.reconnect`` says, by default for ever. Credentials that cannot be used
are final at the start; once a stream was open they are likely being replaced, and get ``handshake_patience_s``. A
message that one end cannot make sense of, on a stream that was open, was likely damaged on its way: it is final after
several streams in a row that achieved nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from forebay.client.errors import (
    CredentialsUnusable,
    ForebayError,
    InvalidArgument,
    InvalidOpen,
    ProtocolViolation,
)
from forebay.client.settings import ClientSettings
from forebay.client.transport.retry import RetryState

DAMAGED_MAX: Final = 5
"""Streams in a row without progress that may end with a message that made no sense."""


class Reconnect:
    """History of one publisher's or subscriber's streams. Not safe for threads: the stream's thread owns it."""

    def __init__(self, settings: ClientSettings, *, clock: Callable[[], float], random: Callable[[], float]) -> None:
        self._patience_s = settings.handshake_patience_s
        self._pause = RetryState(settings.reconnect, random)
        self._clock = clock
        self._was_open = False
        self._unusable_since: float | None = None
        self._damaged = 0
        """Streams in a row that ended with a message that made no sense."""

    @property
    def failures(self) -> int:
        """Streams that failed since the last one that was opened."""
        return self._pause.failures

    def opened(self) -> None:
        """Note that a stream was opened: earlier failures are forgotten."""
        self._was_open = True
        self._unusable_since = None
        self._pause.succeeded()

    def progressed(self) -> None:
        """Note that a stream achieved something: messages arrive as they were sent."""
        self._damaged = 0

    def delay_s(self, error: ForebayError) -> float | None:
        """Return the pause before the next stream, ``None`` where ``error`` is final."""
        now = self._clock()
        if isinstance(error, CredentialsUnusable) and self._was_open:
            if self._unusable_since is None:
                self._unusable_since = now
            is_final = now - self._unusable_since >= self._patience_s
        elif self._was_open and _is_senseless(error):
            self._damaged += 1
            is_final = self._damaged >= DAMAGED_MAX
        else:
            self._unusable_since = None
            is_final = not error.retryable
        return None if is_final else self._pause.failed(now, error.retry_after_s)


def _is_senseless(error: ForebayError) -> bool:
    """Return whether one end could make no sense of a message of the other."""
    undecodable = type(error) is InvalidArgument and error.reason == InvalidArgument.default_reason
    return undecodable or isinstance(error, InvalidOpen | ProtocolViolation)
