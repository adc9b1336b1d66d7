"""Broker processes that a test starts, kills and starts again on the same directory and port.

Two ways in, one handle: ``Launcher`` forks brokers within milliseconds, ``serve_command`` runs ``forebay serve``.
Neither keeps a disk ballast by default: there are many brokers, and some tests check the size of the directory.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

ROOT: Final = Path(__file__).resolve().parents[3]
PORTS: Final = (20_000, 32_000)
"""Below the ephemeral ports: while no process listens, a client cannot connect to itself there."""


class BrokerEnded(AssertionError):
    """A broker ended, or did not do in time what it should."""


class BrokerProcess:
    """A broker in a process of its own."""

    def __init__(self, pid: int, output: int, reap: Callable[[], int], log: Path) -> None:
        self.pid: Final = pid
        self.log: Final = log
        """Its standard error."""
        self._output = output
        self._reap = reap
        self._code: int | None = None
        self.endpoint = ""
        """HOST:PORT, once it is ready."""

    def wait_ready(self, timeout_s: float = 30.0) -> str | None:
        """Return its endpoint once it serves, ``None`` when it has not come so far; raises when it has ended."""
        if self.endpoint:
            return self.endpoint
        line = self._read_line(timeout_s)
        if line is None:
            return None
        if not line:
            raise BrokerEnded(f"the broker ended with {self.wait()} before it was ready: {self._last_words()}")
        self.endpoint = line.split()[-1]
        return self.endpoint

    def ready(self, timeout_s: float = 30.0) -> str:
        """Return its endpoint once it serves."""
        endpoint = self.wait_ready(timeout_s)
        if endpoint is None:
            raise BrokerEnded(f"the broker was not ready within {timeout_s:g} s: {self._last_words()}")
        return endpoint

    def has_ended(self) -> bool:
        """Return True if it has ended, without waiting."""
        return self._code is not None or self._read_line(0.0) == ""

    def kill(self) -> int:
        """End it as ``kill -9`` does; returns its exit code, -9."""
        if self._code is None:
            os.kill(self.pid, signal.SIGKILL)
        return self.wait()

    def ask_to_stop(self) -> None:
        """Ask it to stop, and do not wait for it."""
        if self._code is None:
            os.kill(self.pid, signal.SIGTERM)

    def terminate(self, timeout_s: float = 30.0) -> int:
        """Ask it to stop; returns its exit code."""
        self.ask_to_stop()
        return self.wait(timeout_s)

    def wait(self, timeout_s: float = 30.0) -> int:
        """Return its exit code, negative for a signal, once it has ended."""
        if self._code is None:
            until = time.monotonic() + timeout_s
            while (line := self._read_line(until - time.monotonic())) != "":
                if line is None:
                    raise BrokerEnded(f"the broker did not end within {timeout_s:g} s: {self._last_words()}")
            os.close(self._output)
            self._code = self._reap()
        return self._code

    def _read_line(self, timeout_s: float) -> str | None:
        """Return what it said next, "" when it has ended, ``None`` when nothing came in time."""
        readable, _, _ = select.select([self._output], [], [], max(0.0, timeout_s))
        return os.read(self._output, 4096).decode() if readable else None

    def _last_words(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kill it if it still runs."""
        self.kill()


class Launcher:
    """Forks brokers from a process that has imported everything already. Used from one thread."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        command = [sys.executable, "-m", "tests.support.processes.launcher", str(theirs.fileno())]
        self._process = subprocess.Popen(
            command, cwd=ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
        )
        theirs.close()

    def start(self, data_dir: Path, listen: str, **settings: object) -> BrokerProcess:
        """Start a broker; ``settings`` are those of ``forebay.broker.settings.load``."""
        log = data_dir.with_name(f"{data_dir.name}.log")
        ours, output = os.pipe()
        errors = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        request = {"start": {"data_dir": str(data_dir), "listen": listen, "disk_ballast_bytes": 0, **settings}}
        socket.send_fds(self._socket, [json.dumps(request).encode() + b"\n"], [output, errors])
        os.close(output)
        os.close(errors)
        pid = self._answer()
        return BrokerProcess(pid, ours, lambda: self._wait(pid), log)

    def _wait(self, pid: int) -> int:
        self._socket.sendall(json.dumps({"wait": pid}).encode() + b"\n")
        return self._answer()

    def _answer(self) -> int:
        answer = self._socket.recv(64)
        if not answer:
            raise BrokerEnded("the launcher has ended")
        return int(answer)

    def close(self) -> None:
        """End it and the brokers that still run."""
        self._socket.close()
        self._process.wait(30)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()


def serve_command(
    data_dir: Path,
    listen: str = "127.0.0.1:0",
    *,
    before: Sequence[str] = (),
    environment: dict[str, str] | None = None,
) -> BrokerProcess:
    """Start ``forebay serve`` on a directory; ``before`` is put in front of the command."""
    log = data_dir.with_name(f"{data_dir.name}.log")
    serve = [sys.executable, "-m", "forebay.cli", "serve", "--data-dir", str(data_dir), "--listen", listen]
    ours, output = os.pipe()
    with log.open("ab") as errors:
        process = subprocess.Popen(
            [*before, *serve, "--log-level", "warning"],
            cwd=data_dir.parent,
            env={**os.environ, "FOREBAY_DISK_BALLAST_BYTES": "0", **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
        )
    os.close(output)
    return BrokerProcess(process.pid, ours, process.wait, log)


def free_port() -> int:
    """Return a port of the loopback interface on which no process listens."""
    chosen = random.SystemRandom()
    while True:
        port = chosen.randrange(*PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
