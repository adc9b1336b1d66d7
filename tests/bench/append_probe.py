"""Longest wait of a small append, and of a sleep beside it, measured in a process of its own.

    python -m tests.bench.append_probe ENDPOINT SINK

Each line on the standard input is answered by the longest times since the line before. The oversleep is the noise of
the machine: the process only slept.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from forebay.client import Client, Record
from tests.bench.processes import Child, child

PROBE_S: Final = 0.005
"""Interval of the appends."""


@dataclass(frozen=True, slots=True)
class Longest:
    """Longest times of a measurement."""

    append_s: float
    oversleep_s: float


class AppendProbe:
    """The process."""

    def __init__(self, process: Child) -> None:
        self._process = process

    def longest(self) -> Longest:
        """Return the longest times since the last call."""
        self._process.say("")
        return Longest(**self._process.report())


@contextmanager
def append_probe(endpoint: str, sink: str, log: Path) -> Iterator[AppendProbe]:
    """Append to ``sink`` until the block ends."""
    with child("tests.bench.append_probe", endpoint, sink, log=log) as process:
        process.report()
        yield AppendProbe(process)


def main(endpoint: str, sink: str) -> None:
    """Append until the standard input ends."""
    found: list[tuple[float, float]] = []
    stopping = threading.Event()

    def probe() -> None:
        with Client(endpoint) as client:
            client.publish(sink, [Record(b"probe")])
            print("{}", flush=True)
            while not stopping.is_set():
                asleep = time.perf_counter()
                time.sleep(PROBE_S)
                begun = time.perf_counter()
                client.publish(sink, [Record(b"probe")])
                found.append((time.perf_counter() - begun, begun - asleep - PROBE_S))

    thread = threading.Thread(target=probe)
    thread.start()
    for _ in sys.stdin:
        count = len(found)
        longest = [max(times) for times in zip(*found[:count], strict=True)] or [0.0, 0.0]
        del found[:count]
        print(json.dumps({"append_s": longest[0], "oversleep_s": longest[1]}), flush=True)
    stopping.set()
    thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
