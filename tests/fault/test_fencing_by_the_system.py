"""The disk of a real broker process begins to fail: strace answers its syncs with an I/O error."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from forebay.client import BrokerUnavailable, Client, ClientSettings, Record, RetryPolicy
from tests.support.calls.eventually import values_of
from tests.support.processes.broker import serve_command

SINK = "orders"
SYNCS = "fdatasync,fsync"
"""Logs and tables are synced by the first, directories by the second."""

ONCE = ClientSettings(call_timeout_s=10.0, retry=RetryPolicy(tries_max=1))
MIB = 1 << 20


def needs_strace() -> str:
    """Return where strace is; skips the test where it is not, or may not trace."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    command = [strace, "-o", os.devnull, "-e", "inject=sync:error=EIO", "true"]
    tried = subprocess.run(command, check=False, capture_output=True)
    if tried.returncode != 0:
        pytest.skip(f"strace may not trace here: {tried.stderr.decode(errors='replace').strip()}")
    return strace


@contextmanager
def failing_syncs(pid: int, log: Path, when: str) -> Iterator[None]:
    """Let syncs of a process fail from now on: the first of each thread (``1``), or all of them (``1+``)."""
    command = [needs_strace(), "-f", "-o", str(log), "-e", f"inject={SYNCS}:error=EIO:when={when}", "-p", str(pid)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
        assert tracer.stderr is not None
        said = tracer.stderr.readline()
        assert "attached" in said, said
        try:
            yield
        finally:
            tracer.terminate()
            tracer.communicate(timeout=10)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["1+", "1"], ids=["every sync fails", "one sync fails"])
@pytest.mark.parametrize(("size", "records"), [(100, 1), (MIB, 6)], ids=["through the log", "as a file"])
def test_no_append_is_acknowledged_when_the_disk_fails_to_sync_and_the_broker_ends_and_loses_nothing(
    size: int, records: int, when: str, tmp_path: Path
) -> None:
    needs_strace()
    sent = [bytes([letter]) * size for letter in range(ord("a"), ord("a") + 3)]
    trace = tmp_path / "trace"
    with serve_command(tmp_path / "store") as broker, Client(broker.ready(), settings=ONCE) as client:
        client.sinks.create(SINK)
        for value in sent:
            client.publish(SINK, [Record(value)] * records, partition=0)
        with failing_syncs(broker.pid, trace, when):
            with pytest.raises(BrokerUnavailable) as first:
                client.publish(SINK, [Record(b"!" * size)] * records, partition=0)
            with pytest.raises(BrokerUnavailable):
                client.publish(SINK, [Record(b"?" * size)] * records, partition=0)
            code = broker.wait()

    with serve_command(tmp_path / "store") as again, Client(again.ready(), settings=ONCE) as client:
        found = values_of(client, SINK)
        stats = client.sinks.stats(SINK)

    acknowledged = [value for value in sent for _ in range(records)]
    refused = [b"!" * size] * records
    assert first.value.reason == "STORE_FENCED"
    assert "(INJECTED)" in trace.read_text()
    assert code == 1
    assert found in (acknowledged, acknowledged + refused)
    assert stats.identity_ok
    assert "store was fenced" in broker.log.read_text()
    assert "Traceback" not in broker.log.read_text()
