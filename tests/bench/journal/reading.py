"""A journal read and applied by a broker that is behind, as a follower or on an empty disk, with nothing beside it."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
import time
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Final

from forebay.broker.storage.records.pages.page import BULK_PAGE
from forebay.broker.storage.replication.batch import Batch, encode
from forebay.broker.storage.replication.engine import Engine
from forebay.broker.storage.replication.engines.addresses import open_engine
from forebay.broker.storage.replication.followers.takeover import take_over
from forebay.broker.storage.replication.history import ReaderPosition
from forebay.broker.storage.replication.reader import Reader
from forebay.broker.storage.replication.replica import Replica
from forebay.broker.storage.store.contract import Family, Put
from forebay.broker.storage.store.rocks.store import RocksStore
from tests.bench.journal.places import Place
from tests.bench.processes import child, own_cost, own_cost_since
from tests.bench.values import MIB, Cost, Sample

PAGES: Final = 32
"""Of 1 MiB in a group."""


def measure(place: Place, folder: Path, *, size: int, rounds: int) -> list[Sample]:
    """Append ``size`` bytes once, and read them into a new replica in each round."""
    engine = open_engine(place.address("read"))
    _fill(engine, size)
    samples = [_read(place, folder / f"replica-{number}") for number in range(rounds)]
    place.remove("read")
    return samples


def _read(place: Place, directory: Path) -> Sample:
    """Read in a process of its own: as a broker, it knows nothing of the journal before."""
    log, words = directory.with_suffix(".log"), (place.address("read"), str(directory))
    with child("tests.bench.journal.reading", *words, log=log, environment=place.environment) as process:
        found = process.report()
    shutil.rmtree(directory)
    cost = Cost(float(found["processor_s"]), int(found["written_bytes"]))
    return Sample(int(found["records"]), int(found["bytes"]), float(found["seconds"]), cost)


def _fill(engine: Engine, size: int) -> None:
    reader = Reader(engine, ReaderPosition())

    def read() -> int:
        for _ in reader.read():
            pass
        return reader.place.position

    owner = take_over(reader, read, secrets.token_bytes(16), "", time.monotonic)
    assert owner is not None
    content = os.urandom(MIB)
    with closing(owner):
        for first in range(1, size // MIB, PAGES):
            pages = [(BULK_PAGE.key(number, 1, 0), content) for number in range(first, first + PAGES)]
            owner.append(encode(Batch(pages, [Put(Family.INDEX, b"%020d" % first, b"entry")])))


def main(address: str, directory: Path) -> None:
    """Read a journal into a new replica, and print the figures."""
    with closing(RocksStore(directory)) as store:
        replica = Replica(store)
        reader = Reader(open_engine(address), replica.place)
        began_s, before = time.perf_counter(), own_cost()
        for position, header, batch in reader.read():
            if position == 0:
                replica.journal = header.owner.hex()
            if batch is not None:
                replica.apply(batch, reader.place)
        found = {
            "seconds": time.perf_counter() - began_s,
            **asdict(own_cost_since(before)),
            "records": reader.place.position,
            "bytes": reader.read_bytes,
        }
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
