"""Decision whether a publisher or subscriber opens another stream after one that broke, and when.

Retryable errors are retried as ``ClientSettings.reconnect`` says, by default for ever. Credentials that cannot be used
are final at the start; once a stream was open they are likely being replaced, and get ``handshake_patience_s``.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.client.errors import CredentialsUnusable, HoldfastError
from holdfast.client.retry import RetryState
from holdfast.client.settings import ClientSettings


class Reconnect:
    """History of one publisher's or subscriber's streams. Not safe for threads: the stream's thread owns it."""

    def __init__(self, settings: ClientSettings, *, clock: Callable[[], float], random: Callable[[], float]) -> None:
        self._patience_s = settings.handshake_patience_s
        self._pause = RetryState(settings.reconnect, random)
        self._clock = clock
        self._was_open = False
        self._unusable_since: float | None = None

    @property
    def failures(self) -> int:
        """Streams that failed since the last one that was opened."""
        return self._pause.failures

    def opened(self) -> None:
        """Note that a stream was opened: earlier failures are forgotten."""
        self._was_open = True
        self._unusable_since = None
        self._pause.succeeded()

    def delay_s(self, error: HoldfastError) -> float | None:
        """Return the pause before the next stream, ``None`` where ``error`` is final."""
        now = self._clock()
        if isinstance(error, CredentialsUnusable) and self._was_open:
            if self._unusable_since is None:
                self._unusable_since = now
            is_final = now - self._unusable_since >= self._patience_s
        else:
            self._unusable_since = None
            is_final = not error.retryable
        return None if is_final else self._pause.failed(now, error.retry_after_s)
