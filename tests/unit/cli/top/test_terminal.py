"""Typed bytes become keys, and the modes of the terminal are restored."""

from __future__ import annotations

import os
import pty
import signal
import termios
import threading

import pytest

from forebay.cli.top.terminal import Keys, keys_of, raw_keys


@pytest.mark.parametrize(
    ("typed", "keys"),
    [
        (b"q", ["q"]),
        (b"ab", ["a", "b"]),
        ("ä/".encode(), ["ä", "/"]),
        (b"\x1b[A\x1b[B", ["up", "down"]),
        (b"\x1bOA", ["up"]),
        (b"\x1b", ["escape"]),
        (b"\x1bq", ["escape", "q"]),
        (b"\r\n\t\x7f", ["enter", "enter", "tab", "backspace"]),
        (b"\x1b[5~\x1b[6~", ["page up", "page down"]),
        (b"\x1b[1;5Cq", ["q"]),
        (b"\x1b[200", []),
        (b"\x00\x01s", ["s"]),
        (b"\xffs", ["s"]),
        (b"", []),
    ],
)
def test_typed_bytes_are_keys(typed: bytes, keys: list[str]) -> None:
    assert keys_of(typed) == keys


def test_keys_and_wake_ups_end_the_wait() -> None:
    outside, inside = pty.openpty()
    keys = Keys(inside)
    keys.wake()

    assert keys.wait(60.0) == []
    assert keys.wait(0.0) == []
    os.write(outside, b"q\n")
    assert keys.wait(60.0) == ["q", "enter"]

    keys.close()
    os.close(inside)
    os.close(outside)


def test_the_modes_of_the_terminal_and_the_signals_are_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    outside, inside = pty.openpty()
    before, handler = termios.tcgetattr(inside), signal.getsignal(signal.SIGTERM)
    with os.fdopen(inside, "rb", buffering=0) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        modes: list[int] = []

        def interrupted() -> None:
            with raw_keys() as keys:
                modes.append(termios.tcgetattr(inside)[3])
                threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM)).start()
                keys.wait(60.0)

        with pytest.raises(KeyboardInterrupt):
            interrupted()

        assert modes != [before[3]]
        assert termios.tcgetattr(inside) == before
    assert signal.getsignal(signal.SIGTERM) is handler
    os.close(outside)


def test_a_closed_terminal_ends_the_screen() -> None:
    read, write = os.pipe()
    keys = Keys(read)
    os.close(write)

    assert keys.wait(60.0) == ["q"]

    keys.close()
    keys.wake()
    os.close(read)
