"""A broker that starts on an empty disk serves before it has the pages of the checkpoint."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path

import pytest

from forebay.broker.runtime.read.pages import READ_THREADS, REMOTE_THREADS
from forebay.client import Client, ForebayError, ReplayedRecord
from tests.support.calls.eventually import until
from tests.support.processes.broker import Launcher, free_port
from tests.support.processes.shard import Shard
from tests.support.telemetry.figures import metrics_at

GARBAGE = 8 << 20
KEPT = [bytes([at]) * (1 << 20) for at in range(24)]
LATER = [b"later", b"much later"]


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Shard]:
    with Launcher() as launcher:
        yield Shard(launcher, tmp_path)


def publish_in_bulk(client: Client, bulk: Path) -> None:
    """Publish until some records are in a file: on a busy machine each may come alone, and is a small page then."""
    while True:
        client.sinks.create("orders")
        with client.publisher("orders") as publisher:
            publisher.send_many(KEPT)
        if any(bulk.iterdir()):
            return
        client.sinks.delete("orders", force=True)


def fill(shard: Shard) -> None:
    """Publish until a checkpoint has pages, then some more records, and end the owner."""
    with shard.start("a", journal_garbage_bytes=GARBAGE) as owner, Client(owner.ready()) as client:
        publish_in_bulk(client, shard.directory / "a" / "bulk")
        with client.publisher("orders") as publisher:
            until(lambda: bool(list((shard.journal / "files").rglob("*.pages"))), timeout_s=60.0)
            until(lambda: bool(list((shard.journal / "voided").glob("*"))), timeout_s=60.0)
            publisher.send_many(LATER)
        owner.kill()


@contextmanager
def withheld(shard: Shard) -> Iterator[dict[str, int]]:
    """The pages of the checkpoint are not where they were; their files with their bytes."""
    pages = list((shard.journal / "files").rglob("*.pages"))
    hidden = {path: path.with_name(f"{path.name}.hidden") for path in pages}
    for path, other in hidden.items():
        path.rename(other)
    try:
        yield {path.name: other.stat().st_size for path, other in hidden.items()}
    finally:
        for path, other in hidden.items():
            other.rename(path)


def values_of(client: Client) -> list[bytes]:
    return [record.value for record in client.replay("orders") if isinstance(record, ReplayedRecord)]


def test_records_are_taken_and_later_ones_are_delivered_while_the_pages_of_the_checkpoint_cannot_be_read(
    shard: Shard, tmp_path: Path
) -> None:
    fill(shard)
    metrics = f"127.0.0.1:{free_port()}"
    backups = str(tmp_path / "backups")
    with ExitStack() as broker:
        with withheld(shard) as pages:
            assert pages
            other = broker.enter_context(shard.start("b", metrics_listen=metrics, backup_target=backups))
            client = broker.enter_context(Client(other.ready()))
            with client.publisher("orders") as publisher:
                receipt = publisher.send(b"new").result(timeout=30.0)
            assert receipt.first_offset == len(KEPT) + len(LATER)
            later = islice(client.replay("orders", start=len(KEPT)), 3)
            assert [record.value for record in later if isinstance(record, ReplayedRecord)] == [*LATER, b"new"]
            assert remote_bytes(metrics) == sum(pages.values())
            with pytest.raises(ForebayError, match="still being read from the checkpoint"):
                list(client.backups.create())
            assert "pages of a checkpoint cannot be read" in other.log.read_text()
            assert not pages.keys() & {path.name for path in (tmp_path / "b" / "bulk").iterdir()}

        assert values_of(client) == [*KEPT, *LATER, b"new"]
        until(lambda: remote_bytes(metrics) == 0, timeout_s=60.0)
        assert list(client.backups.create())
        assert not any(sum(part.dropped.values()) for part in client.sinks.stats("orders").partitions)
        assert other.terminate() == 0
    with shard.start("b") as again, Client(again.ready()) as client:
        assert values_of(client) == [*KEPT, *LATER, b"new"]


def extend(found: list[int], client: Client) -> None:
    """Add the size of each record to a list, until a page has to be waited for."""
    for record in client.replay("orders"):
        assert isinstance(record, ReplayedRecord)
        found.append(len(record.value))


@contextmanager
def trickling(paths: list[Path]) -> Iterator[None]:
    """Each of these files is read at 10 kB a second."""
    is_over = threading.Event()

    def write(path: Path) -> None:
        while not is_over.is_set():
            with suppress(BrokenPipeError), path.open("wb", buffering=0) as pipe:
                while not is_over.wait(0.1):
                    pipe.write(bytes(1000))

    for path in paths:
        os.mkfifo(path)
    with ThreadPoolExecutor(len(paths)) as writers:
        writing = [writers.submit(write, path) for path in paths]
        try:
            yield
        finally:
            is_over.set()
            for path in paths:
                os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))  # a writer that still waits for a reader
            for each in writing:
                each.result(10.0)


def test_readers_that_wait_for_pages_of_the_checkpoint_delay_neither_other_reads_nor_the_end(shard: Shard) -> None:
    fill(shard)
    waiting = 2 * (READ_THREADS + REMOTE_THREADS)
    with ExitStack() as broker, withheld(shard):
        pages = [path.with_suffix("") for path in (shard.journal / "files").rglob("*.pages.hidden")]
        with trickling(pages):
            other = broker.enter_context(shard.start("b"))
            client = broker.enter_context(Client(other.ready()))
            calls = broker.enter_context(ThreadPoolExecutor(waiting))
            clients = [broker.enter_context(Client(other.endpoint)) for _ in range(waiting)]
            found: list[list[int]] = [[] for _ in clients]
            reads = [calls.submit(extend, *each) for each in zip(found, clients, strict=True)]
            until(lambda: all(found))

            for _ in range(20):
                later = islice(client.replay("orders", start=len(KEPT)), 2)
                assert [record.value for record in later if isinstance(record, ReplayedRecord)] == LATER
            assert not any(read.done() for read in reads)

            began = time.monotonic()
            assert other.terminate() == 0
            assert time.monotonic() - began < 10.0
        for path in pages:
            path.unlink()


def remote_bytes(address: str) -> float:
    return metrics_at(address)["forebay_remote_size_bytes"]
