"""Child processes of the demo.

Each child is the leader of its own session. Therefore the processes that it started (Spark's JVM) end with it, and
Ctrl-C at the terminal reaches only the demo, which then ends all children. A child reports on its standard output, one
JSON object per line; its standard error is written to a log. One selector waits for all children, without threads.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, Self

LINE_BYTES_MAX: Final = 1 << 20
"""Maximum length of a report line; longer ones are cut."""

STOP_S: Final = 15.0
"""Time limit for an orderly stop of a child."""


class ChildFailed(Exception):
    """A child ended unexpectedly, or was not ready in time. The message has the end of its log."""

    def __init__(self, name: str, problem: str, log_tail: str) -> None:
        self.name = name
        self.log_lines = log_tail.splitlines()
        """End of its log."""
        self.sentence = f"the {name} process {problem}" + ("; its log ends with:" if log_tail else "")
        super().__init__("\n".join([self.sentence, *self.log_lines]))


@dataclass(frozen=True, slots=True)
class Report:
    """Report line of a child."""

    child: str
    """Name of the child."""

    facts: Mapping[str, Any]
    """Contents of the line."""


@dataclass(slots=True)
class Child:
    """Child process with its outputs. Created by `Processes.start`."""

    name: str
    """Name for messages."""

    process: subprocess.Popen[bytes]
    """Process, the leader of its own session."""

    log: Path
    """Log file with its standard error."""

    on_end: Callable[[int], None]
    """Called with the process id once the process and its group have ended."""

    ended: bool = field(default=False, init=False)
    """The process and its group have ended: the process id is no longer valid."""

    silent: bool = field(default=False, init=False)
    """The process has closed its standard output: no more reports follow."""

    partial: bytes = field(default=b"", init=False)
    """Incomplete last line of its output."""

    @property
    def running(self) -> bool:
        """True if the process has not ended."""
        return self.process.poll() is None

    def log_tail(self, lines_max: int = 12) -> str:
        """Return the end of its log."""
        with suppress(FileNotFoundError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines_max:])
        return ""

    def kill(self) -> None:
        """Kill the process and its group with SIGKILL, and wait for the end. Idempotent."""
        if self.ended:
            return
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.ended = True
        self.on_end(self.process.pid)

    def write_line(self, line: str) -> None:
        """Write a line to its standard input; ignored if it has ended."""
        if self.process.stdin is not None:
            with suppress(BrokenPipeError):
                self.process.stdin.write(f"{line}\n".encode())
                self.process.stdin.flush()

    def end_input(self) -> None:
        """Close its standard input; children of the demo then finish and end."""
        if self.process.stdin is not None:
            with suppress(BrokenPipeError):
                self.process.stdin.close()

    def stop(self, timeout_s: float = STOP_S) -> int:
        """Stop the process in order, kill it after ``timeout_s``, and return its exit code."""
        self.end_input()
        if self.running:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout_s)
        self.kill()
        return int(self.process.returncode)


def _plain_environment() -> dict[str, str]:
    """Return the environment without TLS and token settings: the demo uses the loopback interface only."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("FOREBAY_TLS", "FOREBAY_TOKEN"))}


class Processes:
    """Starts children, reads their reports, and ends all of them.

    A context manager: at exit it kills every remaining child, the last one first. If this process is killed itself, a
    guard process does that.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._selector = selectors.DefaultSelector()
        self._children: list[Child] = []
        self._guard = subprocess.Popen(
            python_module("forebay.cli.demo.processes.guard"), stdin=subprocess.PIPE, start_new_session=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, name: str, argv: Sequence[str], *, environment: Mapping[str, str] | None = None) -> Child:
        """Start ``argv`` and read its reports."""
        log = self._folder / f"{name}.log"
        with log.open("ab") as errors:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=self._folder,
                env={**_plain_environment(), **(environment or {})},
                start_new_session=True,
            )
        child = Child(name, process, log, lambda pid: self._notify_guard(f"-{pid}"))
        self._notify_guard(f"+{process.pid}")
        self._children.append(child)
        output = _pipe(process)
        os.set_blocking(output.fileno(), False)
        self._selector.register(output, selectors.EVENT_READ, child)
        return child

    def reports(self, until: float) -> Iterator[Report]:
        """Yield reports as soon as there are any, or none at ``until`` (on the monotonic clock)."""
        if not self._selector.get_map():
            time.sleep(max(0.0, until - time.monotonic()))  # no child is left that could report
            return
        for key, _ in self._selector.select(max(0.0, until - time.monotonic())):
            yield from self._read(key.data)

    def wait_for(self, child: Child, fact: str, *, timeout_s: float) -> Iterator[Report]:
        """Yield all reports up to the one with ``fact`` from ``child``, included.

        Raises `ChildFailed` if the child ends before that, or after ``timeout_s``.
        """
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            for report in self.reports(deadline):
                yield report
                if report.child == child.name and fact in report.facts:
                    return
            if child.silent:
                with suppress(subprocess.TimeoutExpired):
                    child.process.wait(max(0.0, deadline - time.monotonic()))
                raise ChildFailed(child.name, f"ended with code {child.process.returncode}", child.log_tail())
        raise ChildFailed(child.name, f"was not ready after {timeout_s:.0f} s", child.log_tail())

    def close(self) -> None:
        """Kill all remaining children."""
        for child in reversed(self._children):
            child.kill()
            for pipe in (child.process.stdin, child.process.stdout):
                if pipe is not None:
                    with suppress(BrokenPipeError):
                        pipe.close()
        self._selector.close()
        if self._guard.stdin is not None:
            self._guard.stdin.close()
        self._guard.wait()

    def _notify_guard(self, line: str) -> None:
        if self._guard.stdin is not None:
            with suppress(BrokenPipeError):
                self._guard.stdin.write(f"{line}\n".encode())
                self._guard.stdin.flush()

    def _read(self, child: Child) -> Iterator[Report]:
        output = _pipe(child.process)
        try:
            block = os.read(output.fileno(), LINE_BYTES_MAX)
        except BlockingIOError:
            return
        if not block:
            self._selector.unregister(output)
            child.silent = True
            return
        *lines, rest = (child.partial + block).split(b"\n")
        child.partial = rest[-LINE_BYTES_MAX:]
        for line in lines:
            facts = _facts(line)
            if facts:
                yield Report(child.name, facts)


def _pipe(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdout is not None, "started with a pipe"
    return process.stdout


def _facts(line: bytes) -> Mapping[str, Any]:
    """Return the object in a line; empty for other output, such as that of libraries."""
    try:
        facts = json.loads(line)
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}


def python_module(module: str, *arguments: object) -> list[str]:
    """Return the command line that runs ``module`` with the current interpreter."""
    return [sys.executable, "-m", module, *(str(argument) for argument in arguments)]
