"""Starts brokers that are stopped at an exact step of their store, and resumes those held there."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from tests.support.processes.broker import ROOT, BrokerProcess, Launcher
from tests.support.processes.stops import Stop, place, plan


class StoppingLauncher(Launcher):
    """A ``Launcher`` whose brokers can be given a step to stop at. Used from one thread."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        command = [sys.executable, "-m", "tests.support.processes.stops", str(theirs.fileno())]
        self._process = subprocess.Popen(
            command, cwd=ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
        )
        theirs.close()

    def start_to(self, stop: Stop, data_dir: Path, listen: str, **settings: object) -> BrokerProcess:
        """Start a broker that ``stop`` says when to stop."""
        plan(data_dir, stop)
        return self.start(data_dir, listen, **settings)


def wait_held(data_dir: Path) -> None:
    """Return when a broker is held at its step."""
    place(data_dir, "held").read_bytes()


def let_go(data_dir: Path) -> None:
    """Let a broker that is held continue."""
    place(data_dir, "go").write_bytes(b"")
