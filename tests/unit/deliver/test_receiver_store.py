"""The database of the receiving system, without its server."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from forebay.deliver import Batch
from forebay.deliver.receiver_store import Arrival, NotAnEnvelope, ReceiverStore
from forebay.deliver.targets import encoding as encode
from tests.support.targets.memory_source import MemoryRecord

NOW = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ReceiverStore]:
    with closing(ReceiverStore(tmp_path / "r.db")) as found:
        yield found


def arrival(offset: int, value: bytes = b"1") -> Arrival:
    """Return a record as the HTTP target sends it."""
    (line,) = encode.envelopes(Batch("orders", "1f2e", 0, (MemoryRecord(offset, value),)))
    return Arrival.parse(line)


@pytest.mark.parametrize("value", [rb'"\ud800"', rb'{"\udfff": [1, "\u00e9"]}', b'"\xc3\xa9"'])
def test_every_json_value_is_stored(store: ReceiverStore, tmp_path: Path, value: bytes) -> None:
    store.add([arrival(0, value)], now=NOW)

    with closing(sqlite3.connect(tmp_path / "r.db")) as database:
        ((found,),) = database.execute("SELECT value FROM records").fetchall()
    assert json.loads(found) == json.loads(value)


def test_records_that_cannot_be_stored_leave_the_store_as_it_was(store: ReceiverStore) -> None:
    with pytest.raises(UnicodeEncodeError):
        store.add([arrival(0), Arrival("1f2e-0-1", 0, 1, "\ud800", None)], now=NOW)
    store.add([arrival(2)], now=NOW)

    stats = store.stats()
    assert (stats.rows, stats.arrivals) == (1, 1)


@pytest.mark.parametrize(
    "changed",
    [
        {"offset": 1 << 63},
        {"offset": True},
        {"partition": -(1 << 63)},
        {"key": "\ud800"},
        {"event_time": 7},
        {"event_time": ["2026"]},
    ],
)
def test_a_field_that_no_column_can_have_is_no_envelope(changed: dict[str, object]) -> None:
    fields = {"key": "1f2e-0-1", "partition": 0, "offset": 1, "event_time": None, "value": 1}
    Arrival.parse(json.dumps(fields).encode())

    with pytest.raises(NotAnEnvelope):
        Arrival.parse(json.dumps({**fields, **changed}).encode())
