"""Positions of Spark queries in a real PostgreSQL: lost checkpoints, and kills of the query and of the server."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from forebay.client import Client, Record
from forebay.client.positions.position import SavedPosition
from forebay.client.testing import TestBroker, broker
from forebay.spark.options.checkpoint import DEFAULT_NAMESPACE
from tests.support.calls.eventually import until
from tests.support.campaigns.spark_reader import NAME, SINK, Work
from tests.support.stores.postgresql import PostgresqlServer, program
from tests.support.stores.server import required

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
PARTITIONS = 2
START_S = 240.0
"""Time until a query has started and processed something, on a loaded machine."""
KEYS = [f"{DEFAULT_NAMESPACE}/{NAME}/{SINK}/{partition}" for partition in range(PARTITIONS)]


@pytest.fixture(scope="module")
def server(server_folder: Path) -> Iterator[PostgresqlServer]:
    program("postgres")
    required("Java", shutil.which("java"))
    one = PostgresqlServer(server_folder)
    try:
        one.start()
        yield one
    finally:
        one.close()


@pytest.fixture
def running() -> Iterator[TestBroker]:
    with broker() as one:
        with one.client() as client:
            client.sinks.create(SINK, partitions=PARTITIONS)
        yield one


@contextmanager
def reader(work: Work, server: PostgresqlServer) -> Iterator[subprocess.Popen[bytes]]:
    """Run a query in a process group of its own; what is left of it at the end is killed."""
    command = [sys.executable, "-m", "tests.support.campaigns.spark_reader", work.encode()]
    environment = {**os.environ, **server.good}
    with (
        Path(work.folder, "log").open("ab") as log,
        subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
        ) as process,
    ):
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def read_to_the_end(work: Work, server: PostgresqlServer) -> None:
    last = Work(work.endpoint, work.store, work.folder, to_the_end=True)
    with reader(last, server) as process:
        assert process.wait(START_S) == 0, Path(work.folder, "log").read_text()[-2_000:]


def saved(client: Client, url: str) -> list[tuple[int, int]]:
    """Return saved offset and owner epoch of each partition, (0, 0) for none."""
    store = client.position_store(url)
    try:
        found = [(key, store.read(key)) for key in KEYS]
    finally:
        store.close()
    positions = [SavedPosition.decode(key, one.document) if one is not None else None for key, one in found]
    return [(one.offset, one.epoch) if one is not None else (0, 0) for one in positions]


def test_a_query_that_is_killed_and_loses_its_checkpoint_and_its_store_for_a_while_skips_nothing(
    server: PostgresqlServer, running: TestBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server.good.items():
        monkeypatch.setenv(name, value)
    url = server.url("spark")
    work = Work(running.endpoint, url, str(tmp_path))
    published = 0
    positions = [[(0, 0)] * PARTITIONS]

    with running.client() as client:

        def publish() -> None:
            nonlocal published
            for partition in range(PARTITIONS):
                client.publish(SINK, [Record(b"x")] * 3, partition=partition)
            published += 3

        def publish_and_wait() -> None:
            count = len(work.processed())
            publish()
            until(lambda: len(work.processed()) > count, timeout_s=START_S)

        for kill in range(3):
            with reader(work, server) as process:
                publish_and_wait()
                if kill == 1:
                    server.kill()
                    publish_and_wait()
                    server.start()
                publish_and_wait()
                os.killpg(process.pid, signal.SIGKILL)
            positions.append(saved(client, url))
            done = set(work.processed())
            for partition, (offset, _) in enumerate(positions[-1]):
                assert {(partition, number) for number in range(offset)} <= done, "a saved position passed a record"
            if kill != 1:
                shutil.rmtree(work.checkpoint)
        read_to_the_end(work, server)
        positions.append(saved(client, url))
        assert set(work.processed()) == {(each, offset) for each in range(PARTITIONS) for offset in range(published)}
        assert positions[-1] == [(published, epoch) for _, epoch in positions[-1]]

        before = len(work.processed())
        shutil.rmtree(work.checkpoint)
        publish()
        read_to_the_end(work, server)

    for former, later in pairwise(positions):
        for (offset, epoch), (later_offset, later_epoch) in zip(former, later, strict=True):
            assert offset <= later_offset, positions
            assert epoch <= later_epoch, positions
    again = work.processed()[before:]
    assert sorted(again) == [(each, published - 3 + number) for each in range(PARTITIONS) for number in range(3)]
