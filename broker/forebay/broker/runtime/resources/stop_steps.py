"""Steps of a stop: each runs whatever the result of the others; failures are reported at the end."""

from __future__ import annotations

import logging
from typing import Final

from forebay.broker.runtime.resources.supervision import Work, outcome

_log: Final = logging.getLogger(__name__)


class StopFailed(Exception):
    """Stop in which some steps failed: the process exits with an error."""

    def __init__(self, failures: list[str]) -> None:
        super().__init__(f"{len(failures)} steps of the stop failed: {'; '.join(failures)}")
        self.failures = failures


class StopSteps:
    """One stop."""

    def __init__(self) -> None:
        self.failures: list[str] = []
        """Failed steps, in order."""

    async def step(self, what: str, work: Work) -> None:
        """Run a step; a failure is logged and kept for the end."""
        error = await outcome(work)
        if isinstance(error, StopFailed):
            self.failures += error.failures
        elif error is not None:
            _log.error("step of the stop failed step=%s", what, exc_info=error)
            self.failures.append(f"{what}: {error}")

    def finish(self) -> None:
        """Raise ``StopFailed`` if a step failed."""
        if self.failures:
            raise StopFailed(self.failures)
