"""Terminal of a full screen: keys one by one, wake-ups from other threads, and the way back.

The terminal is restored at every end: its modes, the cursor, and what was on the screen before.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

NO_CHARACTER: Final = "\ufffd"
"""Replacement of bytes that are no UTF-8."""

SEQUENCES: Final = {
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1b[C": "right",
    b"\x1b[D": "left",
    b"\x1bOA": "up",
    b"\x1bOB": "down",
    b"\x1bOC": "right",
    b"\x1bOD": "left",
    b"\x1b[5~": "page up",
    b"\x1b[6~": "page down",
    b"\x1b[H": "home",
    b"\x1b[F": "end",
    b"\x1b[Z": "left",
}
"""Sequences of special keys."""

SINGLE: Final = {
    b"\r": "enter",
    b"\n": "enter",
    b"\t": "tab",
    b"\x7f": "backspace",
    b"\x08": "backspace",
    b"\x1b": "escape",
    b"\x03": "q",
    b"\x04": "q",
}
"""Names of single control characters."""


def keys_of(typed: bytes) -> list[str]:
    """Return the names of typed keys; printable characters are their own names."""
    found: list[str] = []
    while typed:
        name = next((name for sequence, name in SEQUENCES.items() if typed.startswith(sequence)), None)
        if name is not None:
            length = next(len(sequence) for sequence in SEQUENCES if typed.startswith(sequence))
        elif typed[:2] in {b"\x1b[", b"\x1bO"}:  # an unknown sequence: up to its final byte
            length = next((at + 1 for at, byte in enumerate(typed) if at > 1 and 0x40 <= byte <= 0x7E), len(typed))
        elif typed[:1] in SINGLE:
            name, length = SINGLE[typed[:1]], 1
        else:
            first = typed.decode(errors="replace")[0]
            length = 1 if first == NO_CHARACTER else len(first.encode())
            name = first if first.isprintable() and first != NO_CHARACTER else None
        if name:
            found.append(name)
        typed = typed[length:]
    return found


class Keys:
    """Keys and wake-ups, in the thread that draws."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)

    def wake(self) -> None:
        """End `wait` early. May be called in every thread and signal handler."""
        with suppress(BlockingIOError, OSError):  # it will wake up already, or is closed
            os.write(self._wake_write, b"x")

    def wait(self, timeout_s: float) -> list[str]:
        """Return the keys that were typed, after a wake-up or the time none."""
        ready, _, _ = select.select([self._descriptor, self._wake_read], [], [], timeout_s)
        if self._wake_read in ready:
            os.read(self._wake_read, 4096)
        if self._descriptor not in ready:
            return []
        typed = os.read(self._descriptor, 4096)
        return keys_of(typed) if typed else ["q"]  # the terminal was closed

    def close(self) -> None:
        """Close the pipe; later wake-ups have no effect."""
        write, self._wake_write = self._wake_write, -1
        os.close(write)
        os.close(self._wake_read)


@contextmanager
def raw_keys() -> Iterator[Keys]:
    """Read keys one by one, without echo; the modes of the terminal are restored at the end.

    SIGTERM and SIGHUP end the block as Ctrl-C does. A change of the size wakes up.
    """
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    keys = Keys(descriptor)

    def resized(number: int, frame: FrameType | None) -> None:
        keys.wake()

    def ended(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    handlers = {
        signal.SIGWINCH: signal.signal(signal.SIGWINCH, resized),
        signal.SIGTERM: signal.signal(signal.SIGTERM, ended),
        signal.SIGHUP: signal.signal(signal.SIGHUP, ended),
    }
    try:
        tty.setcbreak(descriptor)
        yield keys
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        with suppress(termios.error):  # the terminal was closed
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        keys.close()
