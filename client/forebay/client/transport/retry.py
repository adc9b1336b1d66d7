"""Retries of failed calls.

Policy (set by the user), state (history of the call) and loop (waiting) are separate, so that every decision can be
tested without waiting.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from forebay.client.errors import BrokerUnavailable, ForebayError
from forebay.client.settings import RetryPolicy

T = TypeVar("T")


@dataclass(slots=True)
class RetryState:
    """History of a call and its retries."""

    policy: RetryPolicy
    random: Callable[[], float]
    """Random number source, uniform in [0, 1)."""

    failures: int = 0
    """Failed attempts since the last success."""

    first_failure_at: float | None = None
    """Time of the first failure, on the clock of the loop."""

    def succeeded(self) -> None:
        """Reset earlier failures."""
        self.failures = 0
        self.first_failure_at = None

    def failed(self, now: float, retry_after_s: float | None = None) -> float | None:
        """Count a failure; return the delay before the next attempt, or ``None`` to give up.

        The delay is never shorter than the broker's ``RetryInfo``.
        """
        self.failures += 1
        if self.first_failure_at is None:
            self.first_failure_at = now
        if self.policy.tries_max is not None and self.failures >= self.policy.tries_max:
            return None
        grown = self.policy.delay_min_s * self.policy.delay_factor ** min(self.failures - 1, 64)
        delay = min(grown, self.policy.delay_max_s) * (0.5 + self.random() / 2)
        delay = max(delay, retry_after_s or 0.0)
        if self.policy.budget_s is not None and now + delay - self.first_failure_at > self.policy.budget_s:
            return None
        return delay


async def call_with_retries(
    call: Callable[[], Awaitable[T]],
    *,
    state: RetryState,
    clock: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]],
    may_retry: Callable[[ForebayError], bool] = lambda error: isinstance(error, BrokerUnavailable),
) -> T:
    """Return the result of ``call`` with retries under the policy; raises its last error."""
    while True:
        try:
            return await call()
        except ForebayError as error:
            delay = state.failed(clock(), error.retry_after_s) if may_retry(error) else None
            if delay is None:
                raise
        await sleep(delay)
