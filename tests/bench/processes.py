"""Children of the benchmark and what the kernel says they cost. Linux only: it reads ``/proc``.

A child prints on its first line of output, as JSON, where it listens; it ends on request, or when it is killed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.bench.values import MIB, Cost

ROOT: Final = Path(__file__).resolve().parents[2]
STOP_S: Final = 60.0
TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


class Child:
    """A process that reports on its standard output, one JSON object a line."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process = process
        self._log = log
        self._begun = Cost(0.0, 0)

    def report(self) -> dict[str, Any]:
        """Its next line. Raises ``RuntimeError`` with the end of its log when there is none."""
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                return found
        self.process.wait()
        raise RuntimeError(f"{self.process.args!r} ended: {self._log.read_text()[-2_000:]}")

    def say(self, line: str) -> None:
        """Write a line to its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def cost(self) -> Cost:
        """Resources used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        written = _number(Path(f"/proc/{self.process.pid}/io"), "write_bytes")
        return Cost((int(fields[11]) + int(fields[12])) / TICKS_PER_S, written)

    def cost_since(self, before: Cost) -> Cost:
        """Resources used since then."""
        now = self.cost()
        return Cost(now.processor_s - before.processor_s, now.written_bytes - before.written_bytes)

    def memory_peak_mib(self) -> float:
        """The most memory that it has had resident."""
        return _number(Path(f"/proc/{self.process.pid}/status"), "VmHWM") * 1024 / MIB


def own_cost() -> Cost:
    """Resources that this process has used so far."""
    return Cost(time.process_time(), _number(Path("/proc/self/io"), "write_bytes"))


def own_cost_since(before: Cost) -> Cost:
    """Resources that this process has used since then."""
    now = own_cost()
    return Cost(now.processor_s - before.processor_s, now.written_bytes - before.written_bytes)


def _number(path: Path, name: str) -> int:
    for line in path.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise ValueError(f"{path} does not say {name}")


@contextmanager
def child(module: str, *arguments: str, log: Path, environment: Mapping[str, str] | None = None) -> Iterator[Child]:
    """Run ``python -m module`` until the block ends: SIGTERM then, and SIGKILL when that does not help."""
    command: Sequence[str] = [sys.executable, "-m", module, *arguments]
    with log.open("a") as errors:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        yield Child(process, log)
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


@contextmanager
def broker(folder: Path, log: Path, environment: Mapping[str, str] | None = None) -> Iterator[tuple[Child, str]]:
    """A broker as users run it, on ``folder``; its process and its endpoint."""
    with child(
        "forebay.cli", "serve", "--data-dir", str(folder), "--listen", "127.0.0.1:0", "--log-level", "warning",
        "-o", "json", log=log, environment=environment,
    ) as process:  # fmt: skip
        yield process, str(process.report()["endpoint"])
