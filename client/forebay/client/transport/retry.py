"""When a failed call is tried again.

Policy (what the user set), state (how it went so far) and loop (who waits) are kept apart, so that every decision
can be tested without waiting.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from forebay.client.errors import BrokerUnavailable, ForebayError
from forebay.client.settings import RetryPolicy

T = TypeVar("T")


@dataclass(slots=True)
class RetryState:
    """How it went so far."""

    policy: RetryPolicy
    random: Callable[[], float]
    """Uniform in [0, 1)."""

    failures: int = 0
    """Tries that failed since the last success."""

    first_failure_at: float | None = None
    """On the clock of the loop."""

    def succeeded(self) -> None:
        """Forget earlier failures."""
        self.failures = 0
        self.first_failure_at = None

    def failed(self, now: float, retry_after_s: float | None = None) -> float | None:
        """Count a failure; return the seconds to wait before the next try, or ``None`` to give up.

        The broker's ``RetryInfo`` is honoured: the pause is never shorter.
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


def call_with_retries(
    call: Callable[[], T],
    *,
    state: RetryState,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    may_retry: Callable[[ForebayError], bool] = lambda error: isinstance(error, BrokerUnavailable),
) -> T:
    """Return what ``call`` returns, trying again as the policy says; raises its last error."""
    while True:
        try:
            return call()
        except ForebayError as error:
            delay = state.failed(clock(), error.retry_after_s) if may_retry(error) else None
            if delay is None:
                raise
        sleep(delay)
