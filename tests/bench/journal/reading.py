"""A journal read and applied by a broker that is behind, as a follower or on an empty disk, with nothing beside it."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from contextlib import closing
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
from tests.bench.processes import own_cost, own_cost_since
from tests.bench.values import MIB, Sample

PAGES: Final = 32
"""Of 1 MiB in a group."""


def measure(place: Place, folder: Path, *, size: int, rounds: int) -> list[Sample]:
    """Append ``size`` bytes once, and read them into a new replica in each round."""
    engine = open_engine(place.address("read"))
    _fill(engine, size)
    samples = [_read(engine, folder / f"replica-{number}") for number in range(rounds)]
    place.remove("read")
    return samples


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


def _read(engine: Engine, directory: Path) -> Sample:
    with closing(RocksStore(directory)) as store:
        replica = Replica(store)
        reader = Reader(engine, replica.place)
        began_s, before = time.perf_counter(), own_cost()
        for position, header, batch in reader.read():
            if position == 0:
                replica.journal = header.owner.hex()
            if batch is not None:
                replica.apply(batch, reader.place)
        took_s, cost = time.perf_counter() - began_s, own_cost_since(before)
    shutil.rmtree(directory)
    return Sample(reader.place.position, reader.read_bytes, took_s, cost)
