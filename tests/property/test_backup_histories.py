"""Random histories of a broker with backups, losses and restores, against a model of what each backup holds.

No offset has two records in all histories of a sink together, whatever was lost between them.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from forebay.broker.embedded import BrokerServer
from forebay.broker.settings import load
from forebay.broker.storage.backup.catalog import find
from forebay.broker.storage.backup.restores.restore import OnDamage, restore
from forebay.broker.storage.backup.targets import open_target
from forebay.client import Backup, Client, Gap, Record

SINK: Final = "orders"
STEPS: Final = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 5)),
        st.tuples(st.just("publish large"), st.integers(1, 3)),
        st.tuples(st.just("ack"), st.integers(1, 4)),
        st.tuples(st.just("back up"), st.integers(0, 1)),
        st.tuples(st.just("restart"), st.just(0)),
        st.tuples(st.just("restore"), st.integers(0, 3)),
    ),
    min_size=4,
    max_size=14,
)


@dataclass(slots=True)
class State:
    """Expected content of the sink."""

    records: list[bytes] = field(default_factory=list)
    """Appended, in order."""

    acked: int = 0
    """Of these, from the first."""


class History:
    """A broker, its backups, and the model."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._state = State()
        self._saved: list[tuple[str, State]] = []
        self._offsets: dict[int, bytes] = {}
        self._count = 0
        self._open()
        self._client.sinks.create(SINK, buffer_page_size=1, retain_acked_bytes=1 << 40)

    def _open(self) -> None:
        given_: dict[str, Any] = {"disk_ballast_bytes": 0, "disk_reserve_bytes": 0, "listen": "127.0.0.1:0"}
        found = load(data_dir=self._folder / "data", backup_target=str(self._folder / "target"), **given_)
        self._server = BrokerServer.on_disk(found)
        self._server.start()
        self._client = Client(self._server.endpoint)

    def close(self) -> None:
        """Stop the broker."""
        self._client.close()
        self._server.stop()

    def step(self, name: str, number: int) -> None:
        """Make one step, in the broker and in the model."""
        match name:
            case "publish" | "publish large":
                for _ in range(number):
                    self._publish(100_000 if name == "publish large" else 10)
            case "ack":
                records = self._client.pull(SINK, max_records=number)
                self._client.ack(SINK, records)
                wanted = self._state.records[self._state.acked : self._state.acked + number]
                assert [record.value for record in records] == wanted
                self._state.acked += len(records)
            case "back up":
                *_, made = self._client.backups.create(full=bool(number))
                assert isinstance(made, Backup)
                self._saved.append((made.id, State(list(self._state.records), self._state.acked)))
            case "restart":
                self.close()
                self._open()
            case "restore" if self._saved:
                self._restore(*self._saved[number % len(self._saved)])

    def _publish(self, size: int) -> None:
        self._count += 1
        value = (b"%d " % self._count).ljust(size, b"x")
        [receipt] = self._client.publish(SINK, [Record(value)])
        assert receipt.first_offset is not None
        assert receipt.first_offset not in self._offsets, "an offset was assigned twice"
        self._offsets[receipt.first_offset] = value
        self._state.records.append(value)

    def _restore(self, backup: str, state: State) -> None:
        self.close()
        shutil.rmtree(self._folder / "data")
        target = open_target(str(self._folder / "target"))
        manifest = find(target, backup)
        at_us = time.time_ns() // 1_000
        report = restore(
            target, manifest, self._folder / "data", on_damage=OnDamage.STOP, store_id="6" * 32, at_us=at_us
        )
        assert sum(one.unsettled for one in report.sinks[0].subscriptions) >= len(state.records) - state.acked
        self._state = State(list(state.records), state.acked)
        self._open()

    def check(self) -> None:
        """Compare the broker with the model."""
        with self._client.replay(SINK, partition=0, start=0, on_gap="yield") as replay:
            found = {record.offset: record.value for record in replay if not isinstance(record, Gap)}
        assert list(found.values()) == self._state.records
        assert all(self._offsets[offset] == value for offset, value in found.items())
        [stats] = self._client.sinks.stats(SINK).subscriptions
        assert stats.partitions[0].pending == len(self._state.records) - self._state.acked


@pytest.mark.slow
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example([("back up", 0), ("restore", 0), ("publish", 2), ("restore", 0), ("publish", 1)])
@given(steps=STEPS)
def test_a_restored_broker_is_as_it_was_at_its_backup_and_assigns_no_offset_twice(steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        history = History(Path(name))
        try:
            for step, number in steps:
                history.step(step, number)
                history.check()
        finally:
            history.close()
