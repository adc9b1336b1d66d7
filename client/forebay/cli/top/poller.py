"""Thread that collects figures, so that keys are answered while a broker is slow or not reachable."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from forebay.cli.top.figures import Figures
from forebay.client.errors import ForebayError

STOP_S: Final = 0.2
"""Time that the end waits for a call in progress; the client, which is closed then, ends the call."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Last figures, and the failure since."""

    figures: Figures | None = None
    problem: str = ""
    """Error of the last attempt; empty after a success."""

    problem_since: datetime | None = None


class Poller:
    """Thread that collects figures at an interval. A context manager."""

    def __init__(self, collect: Callable[[], Figures], interval_s: float, on_sample: Callable[[], None]) -> None:
        """``on_sample`` is called in the thread, after each attempt."""
        self._collect = collect
        self._interval_s = interval_s
        self._on_sample = on_sample
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="forebay-top", daemon=True)
        self.sample = Sample()
        """Newest sample. It is replaced as a whole."""

    def __enter__(self) -> Poller:
        """Start the thread."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the thread."""
        self._stopping.set()
        self._thread.join(STOP_S)

    def poll(self) -> None:
        """Collect once."""
        before = self.sample
        try:
            self.sample = Sample(self._collect())
        except ForebayError as error:
            since = before.problem_since or datetime.now(UTC)
            self.sample = Sample(before.figures, str(error), since)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.poll()
            self._on_sample()
            self._stopping.wait(self._interval_s)
