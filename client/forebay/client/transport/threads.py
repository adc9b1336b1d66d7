"""Background threads of the client library: none of them ends silently.

Whoever waits for such a thread waits on a condition that only the thread signals. So an unexpected end is turned into a
:class:`ClientFault` and handed to the owner of that condition.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable

from forebay.client.errors import ClientFault

log = logging.getLogger(__name__)


class GuardedThread(threading.Thread):
    """Daemon thread whose unexpected end is reported to ``on_fault``, which runs on this thread."""

    def __init__(self, work: Callable[[], None], *, name: str, on_fault: Callable[[ClientFault], None]) -> None:
        super().__init__(name=name, daemon=True)
        self._work = work
        self._on_fault = on_fault

    def run(self) -> None:
        """Do the work; report what it raises."""
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - all of it belongs to those who wait
            self._on_fault(fault_of(error))


def fault_of(error: Exception) -> ClientFault:
    """Return the fault that stands for an unexpected error, and log it; its text may quote a record and is left out."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name}" if frames else "an unknown place"
    thread = threading.current_thread().name
    log.error("background thread failed thread=%s error=%s at=%s", thread, type(error).__qualname__, where)
    fault = ClientFault(
        f"a background thread of the client ended unexpectedly: {type(error).__qualname__} at {where}; open a new one",
        facts={"error": type(error).__qualname__, "thread": thread},
    )
    fault.__cause__ = error
    return fault
