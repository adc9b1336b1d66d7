"""Two thousand sinks with a record each beside one with bulk: what that writes, and how many files it holds open."""

from __future__ import annotations

import os
import resource
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from forebay.client import Client, Record
from tests.support.campaigns.publishers import SETTINGS
from tests.support.processes.broker import serve_command

SINKS = 2_000
MIB = 1 << 20
BULK_BYTES = 256 * MIB
PAGE_BYTES = MIB - 1_000
QUIET_S = 3.0


def written(pid: int) -> int:
    """Bytes that a process has had written to the disk."""
    fields = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(fields["write_bytes"])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_thousand_sinks_of_one_record_and_one_of_bulk_write_less_than_twice_what_they_hold(
    tmp_path: Path,
) -> None:
    """Bytes written per byte stay below 2; files open stay below the limit."""
    if not Path("/proc/self/io").exists():
        pytest.skip("needs /proc")
    with serve_command(tmp_path / "store") as broker, Client(broker.ready(), settings=SETTINGS) as client:
        with ThreadPoolExecutor(16) as threads:
            list(threads.map(lambda number: client.sinks.create(f"sink-{number}"), range(SINKS)))
        client.sinks.create("bulk")
        before = written(broker.pid)
        opened = 0
        value = os.urandom(PAGE_BYTES)
        with ThreadPoolExecutor(8) as threads, client.publisher("bulk") as publisher:
            singles = [
                threads.submit(client.publish, f"sink-{number}", [Record(b"x" * 256)]) for number in range(SINKS)
            ]
            for _ in range(BULK_BYTES // PAGE_BYTES):
                publisher.send(value)
                opened = max(opened, len(os.listdir(f"/proc/{broker.pid}/fd")))
            publisher.flush(120)
            for single in singles:
                single.result(120)
        time.sleep(QUIET_S)  # compaction after the last write counts too, and no notification reports its end
        total = written(broker.pid) - before
        opened = max(opened, len(os.listdir(f"/proc/{broker.pid}/fd")))
        stats = client.sinks.stats("bulk")
        holds = sum(client.sinks.stats(f"sink-{number}").records for number in range(0, SINKS, 100))
        assert broker.terminate() == 0

    stored = stats.bytes + SINKS * 256
    print(f"written {total / stored:.2f} bytes per byte, {opened} files open")
    assert holds == SINKS // 100
    assert total / stored < 2
    assert opened < resource.getrlimit(resource.RLIMIT_NOFILE)[0]
