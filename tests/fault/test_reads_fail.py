"""Reads of a real broker fail for a while with an I/O error, as on a disk whose path is unavailable."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from forebay.client import Client, Delivery, Record
from forebay.errors.reasons import Reason
from tests.fault.test_fencing_by_the_system import needs_strace
from tests.support.calls.eventually import until, values_of
from tests.support.processes.broker import serve_command
from tests.support.refusals import failure

SINK = "orders"
RECORDS = 600
FROM_DISK = {"FOREBAY_TAIL_BYTES": "0"}


@contextmanager
def failing_reads(pid: int, log: Path) -> Iterator[None]:
    """Let every ``pread`` of a process fail with EIO."""
    inject = "inject=pread64:error=EIO"
    command = [needs_strace(), "-f", "-o", str(log), "-e", "trace=pread64", "-e", inject, "-p", str(pid)]
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
@pytest.mark.parametrize("size", [200, 70_000], ids=["from tables", "from bulk files"])
def test_nothing_is_dropped_while_reads_fail_and_all_is_delivered_when_they_work_again(
    size: int, tmp_path: Path
) -> None:
    needs_strace()
    sent = [b"%05d" % number + b"x" * size for number in range(RECORDS)]
    with serve_command(tmp_path / "store") as broker, Client(broker.ready()) as client:
        client.sinks.create(SINK, buffer_page_size=1)
        client.subscriptions.create(SINK, "other")
        with client.publisher(SINK, page_records=20) as publisher:
            publisher.send_many(sent, partition=0)
        assert broker.terminate() == 0

    with (
        serve_command(tmp_path / "store", environment=FROM_DISK) as broker,
        Client(broker.ready()) as client,
        ExitStack() as stack,
    ):
        got: list[bytes] = []
        with failing_reads(broker.pid, tmp_path / "trace"):
            subscriber = stack.enter_context(client.subscriber(SINK))
            early = subscriber.take(1.0)
            until(lambda: client.info().unreadable != ())
            told = client.info()
            lag = client.sinks.stats(SINK).subscriptions[0].partitions[0]
            explained = client.sinks.explain(SINK, 0)
            with failure(Reason.READ_FAILED):
                client.peek(SINK, partition=0, offset=0)
        while len(got) < RECORDS:
            delivery = subscriber.take(30.0)
            assert delivery is not None
            got += _values(delivery)
        stats = client.sinks.stats(SINK)
        until(lambda: client.info().unreadable == ())
        other = values_of(client, SINK) if len(stats.subscriptions) == 2 else []

    assert early is None
    assert got == sent
    assert other == sent
    assert stats.identity_ok
    assert stats.partitions[0].dropped == {}
    assert (told.quarantined_pages, told.state) == (0, "SERVING")
    assert told.read_failures > 0
    assert "READ_FAILED" in lag.reason
    assert "The read failed and is retried" in explained.text
    assert "(INJECTED)" in (tmp_path / "trace").read_text()
    assert "Traceback" not in broker.log.read_text()


def _values(delivery: Delivery) -> list[bytes]:
    assert delivery.gap is None
    values = [record.value for record in delivery]
    delivery.ack()
    return values


@pytest.mark.slow
def test_a_start_whose_reads_fail_is_refused_and_the_next_one_finds_all(tmp_path: Path) -> None:
    strace = needs_strace()
    with serve_command(tmp_path / "store") as broker, Client(broker.ready()) as client:
        client.sinks.create(SINK)
        client.publish(SINK, [Record(b"%d" % number) for number in range(100)], partition=0)
        broker.kill()

    store = tmp_path / "store"
    before = [strace, "-f", "-o", str(tmp_path / "trace"), "-e", "inject=pread64:error=EIO:when=3+"]
    with serve_command(store, before=before) as broker:
        code = broker.wait()
    with serve_command(store) as broker, Client(broker.ready()) as client:
        found, repairs = values_of(client, SINK), client.info().repairs

    assert code != 0
    assert found == [b"%d" % number for number in range(100)]
    assert repairs == ()
