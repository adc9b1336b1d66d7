"""``python -m tests.bench.small.memory ENDPOINT SINK RECORD_BYTES``: memory of a publisher with a full buffer.

A child of its own: it opens a publisher, says so, and waits for a line. Then its broker is stopped, and it sends until
the buffer is full. Its last line is what the kernel says about its memory.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from forebay.client import Client
from forebay.client.errors import BufferFull
from tests.bench.processes import Child, broker, child
from tests.bench.values import MIB

BUFFER_BYTES: Final = 64 * MIB


def resident_bytes() -> int:
    """Resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def fill(endpoint: str, sink: str, record_bytes: int) -> None:
    """Fill the buffer of a publisher whose broker stands still."""
    client = Client(endpoint)
    publisher = client.publisher(sink, buffer_bytes_max=BUFFER_BYTES)
    print(json.dumps({"opened": True}), flush=True)
    sys.stdin.readline()
    gc.collect()
    before, records = resident_bytes(), 0
    try:
        while True:
            publisher.send(os.urandom(record_bytes), wait=False)
            records += 1
    except BufferFull:
        print(json.dumps({"records": records, "bytes": resident_bytes() - before}), flush=True)
    sys.stdin.readline()
    publisher.abandon()
    client.close()


def measure(folder: Path, record_bytes: int) -> tuple[int, int]:
    """Return the records that a publisher with ``BUFFER_BYTES`` took, and the memory that it took for them."""
    log = folder / "memory.log"
    with broker(folder / f"memory-{record_bytes}", log) as (process, endpoint):
        with Client(endpoint) as client:
            client.sinks.create("memory")
        with child("tests.bench.small.memory", endpoint, "memory", str(record_bytes), log=log) as publisher:
            publisher.report()
            found = _stopped(process, lambda: _filled(publisher))
            publisher.say("end")
            publisher.process.wait()
    return found


def _filled(publisher: Child) -> tuple[int, int]:
    publisher.say("fill")
    report = publisher.report()
    return int(report["records"]), int(report["bytes"])


def _stopped(broker_process: Child, work: Callable[[], tuple[int, int]]) -> tuple[int, int]:
    os.kill(broker_process.process.pid, signal.SIGSTOP)
    try:
        return work()
    finally:
        os.kill(broker_process.process.pid, signal.SIGCONT)


if __name__ == "__main__":
    fill(sys.argv[1], sys.argv[2], int(sys.argv[3]))
