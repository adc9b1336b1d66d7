"""Conditions under which a checkpoint of a journal is due."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from forebay.broker.storage.replication.checkpoints import growth as growths
from forebay.broker.storage.replication.checkpoints.growth import RECORD_BYTES, Growth, Limits
from forebay.broker.storage.replication.engines.memory import MemoryEngine
from tests.support.storage.journals import NumberCheckpoints, NumberReplica, batch_of, take_over

RECORDS = 20


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for name in ("db", "bulk"):
        (tmp_path / name).mkdir()
    return tmp_path


def test_small_records_of_an_idle_owner_make_a_checkpoint_due_by_their_number(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker with an empty disk needs a request for each of them."""
    monkeypatch.setattr(growths, "RECORDS_LEAST", RECORDS)
    engine = MemoryEngine()
    replica, checkpoints = NumberReplica(engine), NumberCheckpoints(engine)
    limits = Limits(tail_bytes=RECORDS * RECORD_BYTES, tail_share=0.25, files_bytes=1 << 30)
    growth = Growth(engine, limits, directory, lambda: replica.place, lambda: replica.reader.read_bytes)
    due = []
    with closing(take_over(engine, b"a")) as owner:
        for _ in range(2):
            for number in range(RECORDS - 2):
                owner.append(batch_of(number))
            replica.read()
            due.append(growth.is_due())
            owner.append(batch_of(0))
            owner.append(batch_of(0))
            replica.read()
            due.append(growth.is_due())
            checkpoints.make(replica)

    assert due == [False, True, False, True]
