"""Signals to commands that run until they are stopped.

Python runs the handlers of its `signal` module on the main thread. If that thread waits for a lock and the system gives
the signal to another thread, the handler runs only when the wait ends, which may be never.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Mapping
from threading import Thread
from types import FrameType, TracebackType
from typing import Self


class Signals:
    """Calls handlers on a thread of its own. A context manager, for the main thread only.

    Signals before `handle` have their usual effect. At the end of the block the former handlers are restored.
    """

    def __enter__(self) -> Self:
        """Start nothing yet."""
        self._handlers: dict[int, Callable[[], object]] = {}
        self._before: dict[signal.Signals, signal._HANDLER] = {}
        self._received, self._sent = socket.socketpair()
        self._sent.setblocking(False)
        self._fd_before = signal.set_wakeup_fd(self._sent.fileno(), warn_on_full_buffer=False)
        self._thread = Thread(target=self._run, name="forebay-signals", daemon=True)
        self._thread.start()
        return self

    def handle(self, handlers: Mapping[signal.Signals, Callable[[], object]]) -> None:
        """Call a handler without arguments for each signal from now on; it must be thread-safe."""
        for number, handler in handlers.items():
            self._handlers[number] = handler
            self._before[number] = signal.signal(number, _received)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore the former handlers and end the thread."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._fd_before)
        self._sent.close()
        self._thread.join()
        self._received.close()

    def _run(self) -> None:
        while numbers := self._received.recv(64):
            for number in numbers:
                if handler := self._handlers.get(number):
                    handler()


def _received(number: int, frame: FrameType | None) -> None:
    """Do nothing on the main thread: the number of the signal is in the socket already."""
