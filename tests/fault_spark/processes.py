"""The processes of a Spark: started here, distinguished by their role, killed one by one.

Spark's own processes change their groups and parents, so all that descend from one start carry a mark of their own in
their environment, and nothing without that mark is ever killed or frozen.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

import pyspark

from tests.fault_spark.driver import Event, Work
from tests.support.processes.broker import ROOT

MARK: Final = "FOREBAY_TEST_RUN"
TICK_S: Final = 0.05
SPARK: Final = Path(pyspark.__file__).parent

Role = Literal["driver", "executor", "worker", "planner", "committer", "other"]


@dataclass(frozen=True, slots=True)
class Found:
    """A process of ours."""

    pid: int
    role: Role


class Marked:
    """All processes that were started with one mark, and their children."""

    def __init__(self) -> None:
        self.mark: Final = uuid.uuid4().hex

    def environment(self, folder: Path) -> dict[str, str]:
        """Environment of a process: the mark, and a Spark that writes its own files below ``folder``."""
        home = folder / "spark"
        if not home.exists():
            home.mkdir(parents=True)
            for part in SPARK.iterdir():
                (home / part.name).symlink_to(part)
        return {
            **os.environ,
            MARK: self.mark,
            "SPARK_HOME": str(home),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    def find(self, *roles: Role) -> list[Found]:
        """Return those that run and have one of the roles."""
        found = [Found(pid, self._role(pid)) for pid in self._all()]
        return [one for one in found if one.role in roles]

    def kill(self, *found: Found) -> int:
        """End them as ``kill -9`` does; returns how many there were left to end."""
        return sum(self._send(one.pid, signal.SIGKILL) for one in found)

    def freeze(self, one: Found, seconds: float) -> bool:
        """Stop a process for a while; returns False if it had ended before."""
        if not self._send(one.pid, signal.SIGSTOP):
            return False
        time.sleep(seconds)
        self._send(one.pid, signal.SIGCONT)
        return True

    def kill_all(self) -> None:
        """End whatever still runs, and what it starts meanwhile."""
        while left := self._all():
            for pid in left:
                self._send(pid, signal.SIGKILL)

    def _all(self) -> list[int]:
        return [int(one.name) for one in Path("/proc").iterdir() if one.name.isdecimal() and self._is_ours(one)]

    def _is_ours(self, process: Path) -> bool:
        """A process that has ended, and was not waited for, has no environment any more."""
        try:
            return f"{MARK}={self.mark}\0".encode() in (process / "environ").read_bytes()
        except OSError:
            return False

    def _send(self, pid: int, what: signal.Signals) -> bool:
        """Open a handle of the process before checking it again: its pid may have been reused."""
        with suppress(ProcessLookupError):
            handle = os.pidfd_open(pid)
            try:
                if self._is_ours(Path(f"/proc/{pid}")):
                    signal.pidfd_send_signal(handle, what)
                    return True
            finally:
                os.close(handle)
        return False

    def _role(self, pid: int) -> Role:
        """Spark's Python workers are forked by a daemon, which is left alone; the last argument says what they do."""
        command = _command(pid)
        if "org.apache.spark.deploy.SparkSubmit" in command:
            return "driver"
        if "org.apache.spark.executor.CoarseGrainedExecutorBackend" in command:
            return "executor"
        if "pyspark.daemon" in command and "pyspark.daemon" in _command(_parent(pid)):
            if command[-1] == "pyspark.worker":
                return "worker"
            return "committer" if command[-1].endswith("python_streaming_sink_runner") else "planner"
        return "other"


def _command(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").rstrip("\0").split("\0")
    except OSError:
        return []


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


class DriverProcess:
    """A driver (see ``driver.py``) with its executors."""

    def __init__(self, marked: Marked, work: Work) -> None:
        self._marked = marked
        self.log: Final = Path(work.folder) / "driver.log"
        """Its standard error."""
        self.events: Final[queue.Queue[Event]] = queue.Queue()
        """Reports that were not read yet; an event ``gone`` is the last one."""
        with self.log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.fault_spark.driver", json.dumps(asdict(work))],
                cwd=ROOT,
                env=marked.environment(Path(work.folder)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, name="driver-events", daemon=True)
        self._reader.start()

    def expect(self, what: str, timeout_s: float) -> Event:
        """Return the next event, which has to be of this kind."""
        try:
            event = self.events.get(timeout=timeout_s)
        except queue.Empty:
            raise AssertionError(f"the driver reported nothing within {timeout_s:g} s: {self._last_words()}") from None
        if event.what != what:
            raise AssertionError(f"the driver reported {event} where {what} was expected: {self._last_words()}")
        return event

    def kill(self) -> None:
        """End its two processes as ``kill -9`` does. Executors find out by themselves, and may work on for a while."""
        self._marked.kill(*self._marked.find("driver"))
        self._process.kill()
        self._reap()

    def wait(self, timeout_s: float) -> int:
        """Return its exit code once it has ended."""
        code = self._process.wait(timeout_s)
        self._reap()
        return code

    def has_told(self, timeout_s: float) -> bool:
        """Return True if there is an event; waits up to the given time."""
        until = time.monotonic() + timeout_s
        while self.events.empty() and time.monotonic() < until:
            time.sleep(TICK_S)
        return not self.events.empty()

    def _reap(self) -> None:
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(b"{"):
                self.events.put(Event(**json.loads(line)))
        self.events.put(Event("gone"))

    def _last_words(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kill it if it still runs."""
        self.kill()


def spark_class(marked: Marked, folder: Path, command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """Start one of Spark's own servers."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [str(SPARK / "bin" / "spark-class"), *command],
            env=marked.environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
