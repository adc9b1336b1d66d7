"""A terminal of a given size, by tmux: commands run in it, and its screen is read as text.

Skipped where tmux is missing, unless FOREBAY_REQUIRE_TMUX is set.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, Self

import pytest

from tests.support.calls.eventually import until

ENDED: Final = "[ended with"
"""Beginning of the line after a command that has ended."""

FOREIGN: Final = ("COLUMNS", "LINES", "FOREBAY_")
"""Beginnings of variables that would change what a command shows."""

PATIENCE_S: Final = 60.0
"""Time for a command to start or to end on a busy machine."""


class Tmux:
    """Terminal with one command. A context manager."""

    def __init__(self, words: list[str], *, width: int, height: int = 40, folder: Path = Path()) -> None:
        """``folder`` is that of the command."""
        program = shutil.which("tmux")
        if program is None:
            assert "FOREBAY_REQUIRE_TMUX" not in os.environ, "tmux is missing; apt install tmux"
            pytest.skip("tmux is missing; apt install tmux")
        self._folder = Path(tempfile.mkdtemp(prefix="forebay-tmux-"))
        self._tmux = [program, "-u", "-f", "/dev/null", "-S", str(self._folder / "socket")]
        command = shlex.join([sys.executable, "-m", "forebay.cli", *words])
        # `cat` keeps the terminal open, and shows what is typed after the command, which an unclean one would not.
        script = f"echo before; {command}; echo '{ENDED}' $?']'; exec cat"
        variables = {"TZ": "UTC", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "PYTHONPATH": os.pathsep.join(sys.path)}
        # Workers of the tests have a size of their own, which would hide that of the terminal.
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        self._environment |= variables
        self._start = ["new-session", "-d", "-x", str(width), "-y", str(height), "-c", str(folder.absolute()), script]

    def __enter__(self) -> Self:
        """Start the command."""
        self._run(*self._start)
        return self

    def __exit__(self, *_: object) -> None:
        """End the terminal and what runs in it."""
        self._run("kill-server")
        shutil.rmtree(self._folder)

    def type(self, *keys: str) -> None:
        """Type keys, by the names of tmux."""
        self._run("send-keys", *keys)

    def screen(self) -> list[str]:
        """Return the lines of the screen, without trailing spaces."""
        return [line.rstrip() for line in self._run("capture-pane", "-p").splitlines()]

    def wait_for(self, text: str) -> list[str]:
        """Return the screen once it has ``text``."""
        found: list[str] = []

        def is_there() -> bool:
            found[:] = self.screen()
            return any(text in line for line in found)

        try:
            until(is_there, timeout_s=PATIENCE_S)
        except AssertionError:
            pytest.fail("\n".join([f"{text!r} did not come; the screen is", *found]))
        return found

    def output(self) -> list[str]:
        """Return the output of a command that has ended, and its last line with the exit code."""
        lines = self.wait_for(ENDED)
        end = next(at for at, line in enumerate(lines) if ENDED in line)
        return lines[lines.index("before") + 1 : end + 1]

    def flags(self) -> tuple[bool, bool]:
        """Return whether the cursor is shown, and whether the alternate screen is."""
        cursor, alternate = self._run("display-message", "-p", "#{cursor_flag} #{alternate_on}").split()
        return cursor == "1", alternate == "1"

    def _run(self, *words: str) -> str:
        return subprocess.run(
            [*self._tmux, *words], env=self._environment, capture_output=True, text=True, check=True, timeout=PATIENCE_S
        ).stdout
