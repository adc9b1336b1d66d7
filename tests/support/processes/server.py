"""Real server of another project: a process on loopback that a test starts, kills, and starts again on its data."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil
import pytest

ROOT: Final = Path(__file__).parents[3]
TOOLS: Final = ROOT / ".tools"
START_S: Final = 240.0


def required(tool: str, found: str | None, *, by: str, variable: str) -> str:
    """Return what ``found`` names; skips the test where it is missing, and fails it where ``variable`` demands it.

    ``by`` is the target of `make` that installs the tool.
    """
    if found:
        return found
    problem = f"{tool} was not found: make {by} installs it, or says how to"
    if os.environ.get(variable):
        pytest.fail(problem)
    pytest.skip(problem)


class ServerProcess(ABC):
    """A server that can be killed, started again on its data, and stopped for a while."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """Return the command that serves in the foreground."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Return True if requests are answered."""

    def environment(self) -> dict[str, str]:
        """Return the variables of the server's process."""
        return dict(os.environ)

    def start(self) -> None:
        """Start the server on its data; returns when it answers."""
        self.launch()
        self.await_ready()

    def launch(self) -> None:
        """Start the process of the server on its data."""
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                self.command(),
                cwd=self.folder,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                user=self.user(),
                start_new_session=True,
            )

    def await_ready(self) -> None:
        """Return when the server that was launched answers."""
        assert self._process is not None
        ends_at = time.monotonic() + START_S
        while not self.is_ready():
            if self._process.poll() is not None or time.monotonic() > ends_at:
                self.kill()
                raise AssertionError(f"{type(self).__name__} did not start within {START_S:g} s:\n{self.log()[-3000:]}")
            time.sleep(0.05)

    def log(self) -> str:
        """Return the output of the server."""
        return self._log.read_text(errors="replace")

    @property
    def _log(self) -> Path:
        return self.folder / "server.log"

    def user(self) -> str | None:
        """Return the user of the process; None is the user of the tests."""
        return None

    def kill(self) -> None:
        """End the server and all its processes as kill -9 does; returns when none is left."""
        ended = self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(30)
            self._process = None
        _, left = psutil.wait_procs(ended, timeout=30)
        assert not left, f"{left} were killed, and still run"

    def pause(self) -> None:
        """Stop all its processes: connections stay open, and nothing is answered."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue after ``pause``."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> list[psutil.Process]:
        """Send a signal to all processes of the server, and return the others that it started."""
        if self._process is None or self._process.poll() is not None:
            return []
        root = psutil.Process(self._process.pid)
        root.suspend()  # otherwise it may start more of them
        others = root.children(recursive=True)
        for one in (*others, root):
            with suppress(psutil.NoSuchProcess):
                one.send_signal(number)
        return others

    def close(self) -> None:
        """End the server and remove its data."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
