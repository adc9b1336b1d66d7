"""Archives of a whole broker: its data directory and a backup, with the facts that its clients noted.

    python -m tests.support.storage.stored_broker

writes `tests/contract/directories/broker-N.tar.xz` for the format of this version, once: every later version serves it.
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from forebay.broker.embedded import BrokerServer
from forebay.broker.settings import load
from forebay.broker.storage.formats import FORMAT
from forebay.client import Client, EpochCommit, Gap, Record, Stage, StagedPart, StagedToken, arrow
from tests.support.storage.stored_directory import ARCHIVES, DATA, TARGET

FACTS: Final = "facts.json"
SINKS: Final = ("orders", "payments", "exact", "rows")
REJECTED: Final = (2, 5)
LARGE: Final = b"large ".ljust(150_000, b"x")
"""Value of a record that goes to a bulk file."""


@dataclass(frozen=True, slots=True)
class Facts:
    """State of the broker when it was stopped, as its clients know it."""

    values: dict[str, list[str]]
    """Beginnings of the values of each sink, by partition and offset."""

    pending: dict[str, int]
    """Records that are not settled, by sink and subscription."""

    position: int
    """Next record of the consumer with a saved position in `orders`, of ten records in one partition."""

    schemas: int
    token: str
    """Staged attempt of epoch 2, which is not committed."""

    ticket: int


@contextmanager
def serving(folder: Path, *, data: str = DATA) -> Iterator[Client]:
    """Serve a directory of the folder."""
    settings = load(
        data_dir=folder / data,
        listen="127.0.0.1:0",
        backup_target=str(folder / TARGET),
        disk_ballast_bytes=0,
        disk_reserve_bytes=0,
    )
    with BrokerServer.on_disk(settings) as server, Client(server.endpoint) as client:
        yield client


def work(client: Client) -> Facts:
    """Use what a broker has."""
    client.sinks.create("orders", buffer_page_size=1)
    client.subscriptions.create("orders", "audit")
    client.publish("orders", [Record(b"order %d" % number, key=b"k", headers=(("h", b"1"),)) for number in range(6)])
    first, second, _ = client.pull("orders", max_records=3)
    client.ack("orders", [first, second])
    client.publish("orders", [Record(LARGE)])
    with client.consumer("orders", "billing", follow=False) as consumer:
        position = sum(len(batch) for batch in consumer)
    client.publish("orders", [Record(b"order %d" % number) for number in range(7, 10)])
    client.realtime.set(False, sink="orders")
    _reject(client)
    schemas = _rows(client)
    token, ticket = _epochs(client)
    return Facts(
        values={sink: values_of(client, sink) for sink in SINKS},
        pending=pending_of(client),
        position=position,
        schemas=schemas,
        token=token,
        ticket=ticket,
    )


def _reject(client: Client) -> None:
    client.sinks.create("payments")
    client.publish("payments", [Record(b"payment %d" % number) for number in range(10)])
    with client.subscriber("payments") as subscriber:
        left = 10
        while left:
            delivery = next(subscriber)
            left -= len(delivery)
            for record in delivery:
                if record.offset in REJECTED:
                    delivery.dead_letter("no such customer", offset=record.offset, wait=True)
                elif record.offset < 8:
                    delivery.ack(record.offset)


def _rows(client: Client) -> int:
    client.sinks.create("rows")
    previous = 0
    for columns in ({"id": [1, 2]}, {"id": [3], "name": ["x"]}):
        batch = pa.RecordBatch.from_pydict(columns)
        previous = client.schemas.register("rows", arrow.encode_schema(batch.schema), previous=previous)
        with client.publisher("rows") as publisher:
            publisher.send_page(arrow.page(batch, previous), partition=0).result()
    return len(client.schemas.list("rows"))


def _epochs(client: Client) -> tuple[str, int]:
    client.sinks.create("exact", partitions=2)
    ticket = client.epochs.take_ticket("exact")
    staged = StagedToken("")
    for epoch in range(3):
        stage = Stage("query", epoch, "run-1", ticket, write_name="w")
        with client.publisher("exact", stage=stage) as publisher:
            for partition in range(2):
                publisher.send(b"epoch %d" % epoch, partition=partition)
            publisher.flush()
            staged = publisher.staged()
        if epoch < 2:
            client.epochs.commit([EpochCommit.of("exact", stage, [staged])])
    return staged.token, ticket


def commit_staged(client: Client, facts: Facts) -> None:
    """Commit the epoch that was staged."""
    stage = Stage("query", 2, "run-1", facts.ticket, write_name="w")
    parts = tuple(StagedPart(partition, pages=1, records=1) for partition in range(2))
    client.epochs.commit([EpochCommit.of("exact", stage, [StagedToken(facts.token, parts)])])


def values_of(client: Client, sink: str) -> list[str]:
    """Return the beginnings of all values of a sink, by partition and offset."""
    found: list[str] = []
    for partition in range(client.sinks.get(sink).settings.partitions):
        with client.replay(sink, partition=partition, start=0, on_gap="yield") as replay:
            found += [one.value[:20].decode() for one in replay if not isinstance(one, Gap)]
    return found


def pending_of(client: Client) -> dict[str, int]:
    """Return the number of unsettled records of each subscription."""
    return {
        f"{sink}/{one.name}": client.sinks.stats(sink).pending(one.name)
        for sink in SINKS
        for one in client.subscriptions.list(sink)
    }


def check_state(client: Client, facts: Facts) -> None:
    """Compare what is stored with what its clients noted."""
    assert {sink: values_of(client, sink) for sink in SINKS} == facts.values
    assert pending_of(client) == facts.pending
    assert all(client.sinks.stats(sink).identity_ok for sink in SINKS)
    assert [letter.origin_offset for letter in client.dead_letters.list("payments")] == list(REJECTED)
    assert len(client.schemas.list("rows")) == facts.schemas
    assert client.epochs.get("exact", "query").epoch == 1
    assert not client.sinks.get("orders").settings.realtime


def read_on(client: Client) -> list[bytes]:
    """Return the values that the consumer with a saved position gets."""
    with client.consumer("orders", "billing", follow=False) as consumer:
        return [record.value for batch in consumer for record in batch if not isinstance(record, Gap)]


def read_facts(folder: Path) -> Facts:
    """Return the facts of an archive that was unpacked."""
    found: dict[str, Any] = json.loads((folder / FACTS).read_text())
    return Facts(**found)


def write(folder: Path) -> Path:
    """Write the archive of this version; returns its path."""
    archive = ARCHIVES / f"broker-{FORMAT}.tar.xz"
    if archive.exists():
        sys.exit(f"{archive} exists: archives are kept as they were written")
    with serving(folder) as client:
        facts = work(client)
        list(client.backups.create())
    (folder / FACTS).write_text(json.dumps(asdict(facts)))
    with tarfile.open(archive, "w:xz") as packed:
        for name in (DATA, TARGET, FACTS):
            packed.add(folder / name, name)
    return archive


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        print(write(Path(name)))
