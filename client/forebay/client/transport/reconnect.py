"""Decision on reconnecting a publisher or subscriber after its stream broke.

Retryable errors are retried as ``ClientSettings.reconnect`` configures, without limit by default. Unusable credentials
are final before the first stream was open; later they are likely being rotated, and are retried for
``handshake_patience_s``. A message that one side cannot decode was likely damaged in transit: it becomes final after
several consecutive streams without progress.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from forebay.client.errors import (
    CredentialsUnusable,
    ForebayError,
)
from forebay.client.settings import ClientSettings
from forebay.client.transport.retry import RetryState
from forebay.errors.reasons import Reason

DAMAGED_MAX: Final = 5
"""Number of consecutive streams without progress that may end with an undecodable message."""

OUTAGE_AFTER_S: Final = 2.0
"""Duration of an outage from which on it is a warning: a restart of a broker is shorter."""

OUTAGE_EVERY_S: Final = 30.0
"""Interval of the warnings during an outage."""

_UNDECODABLE: Final = frozenset(
    reason.name for reason in (Reason.INVALID_REQUEST, Reason.INVALID_OPEN, Reason.PROTOCOL_VIOLATION)
)
"""Reasons of a message that one side could not decode."""


class Reconnect:
    """History of the streams of a publisher or subscriber. Not thread-safe: the stream's thread owns it."""

    def __init__(self, settings: ClientSettings, *, clock: Callable[[], float], random: Callable[[], float]) -> None:
        self._patience_s = settings.handshake_patience_s
        self._pause = RetryState(settings.reconnect, random)
        self._clock = clock
        self._was_open = False
        self._unusable_since: float | None = None
        self._damaged = 0
        """Consecutive streams that ended with an undecodable message."""
        self._warn_at: float | None = None
        """Time of the next warning; None while no outage lasts."""

    @property
    def failures(self) -> int:
        """Number of failed streams since the last one that was opened."""
        return self._pause.failures

    def opened(self) -> None:
        """Record that a stream was opened, and reset earlier failures."""
        self._was_open = True
        self._unusable_since = None
        self._warn_at = None
        self._pause.succeeded()

    def level(self) -> int:
        """Return the level of the log event of the failure that `delay_s` has counted.

        The first one of an outage is an information, further ones are for debugging. A longer outage is a warning in
        regular intervals.
        """
        now = self._clock()
        if self._warn_at is None:
            self._warn_at = now + OUTAGE_AFTER_S
            return logging.INFO
        if now < self._warn_at:
            return logging.DEBUG
        self._warn_at = now + OUTAGE_EVERY_S
        return logging.WARNING

    def progressed(self) -> None:
        """Record that a stream made progress: messages arrive undamaged."""
        self._damaged = 0

    def delay_s(self, error: ForebayError) -> float | None:
        """Return the delay before the next stream, ``None`` if ``error`` is final."""
        now = self._clock()
        if isinstance(error, CredentialsUnusable) and self._was_open:
            if self._unusable_since is None:
                self._unusable_since = now
            is_final = now - self._unusable_since >= self._patience_s
        elif self._was_open and error.reason in _UNDECODABLE:
            self._damaged += 1
            is_final = self._damaged >= DAMAGED_MAX
        else:
            self._unusable_since = None
            is_final = not error.retryable
        return None if is_final else self._pause.failed(now, error.retry_after_s)
