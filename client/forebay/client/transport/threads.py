"""Background threads of the client library whose failures are always reported.

Other threads wait on conditions that only such a thread signals. Therefore an unexpected end becomes a
:class:`ClientFault`, which is passed to the owner of the condition.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable

from forebay.client.errors import ClientFault

log = logging.getLogger(__name__)


class GuardedThread(threading.Thread):
    """Daemon thread that reports an unexpected end to ``on_fault``, which runs on this thread."""

    def __init__(self, work: Callable[[], None], *, name: str, on_fault: Callable[[ClientFault], None]) -> None:
        super().__init__(name=name, daemon=True)
        self._work = work
        self._on_fault = on_fault

    def run(self) -> None:
        """Run the work; report any exception."""
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - reported to the waiting threads
            self._on_fault(fault_of(error))


def fault_of(error: Exception) -> ClientFault:
    """Log an unexpected error and return its fault; the text is omitted, because it may quote a record."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name}" if frames else "an unknown place"
    thread = threading.current_thread().name
    log.error("background thread failed thread=%s error=%s at=%s", thread, type(error).__qualname__, where)
    fault = ClientFault(
        f"a background thread of the client ended unexpectedly: {type(error).__qualname__} at {where}; open another",
        facts={"error": type(error).__qualname__, "thread": thread},
    )
    fault.__cause__ = error
    return fault
