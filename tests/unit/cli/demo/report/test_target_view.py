"""The view reads what the real receiving system wrote, and counts only what is new."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from forebay.cli.demo.report import reconciliation
from forebay.cli.demo.report.target_view import TargetView
from forebay.deliver.receiver_store import Arrival, ReceiverStore

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def arrival(offset: int, partition: int = 0) -> Arrival:
    value = json.dumps({"id": f"live#{offset}"})
    return Arrival(f"abc-{partition}-{offset}", partition, offset, value, None)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ReceiverStore]:
    opened = ReceiverStore(tmp_path / "target.sqlite")
    yield opened
    opened.close()


def test_before_the_first_start_nothing_has_arrived(tmp_path: Path) -> None:
    with TargetView(tmp_path / "none.sqlite") as view:
        assert view.count() == 0
        assert list(view.rows()) == []


def test_repeated_records_are_counted_once(store: ReceiverStore, tmp_path: Path) -> None:
    with TargetView(tmp_path / "target.sqlite") as view:
        store.add([arrival(0), arrival(1)], now=NOW)
        first = view.count()
        store.add([arrival(1), arrival(2), arrival(0, partition=1)], now=NOW)

        assert (first, view.count(), view.count()) == (2, 4, 4)


def test_arrivals_come_in_the_order_of_their_first_time(store: ReceiverStore, tmp_path: Path) -> None:
    store.add([arrival(1)], now=NOW)
    store.add([arrival(0), arrival(1)], now=NOW)

    with TargetView(tmp_path / "target.sqlite") as view:
        assert list(view.rows()) == [
            reconciliation.TargetRow(partition=0, offset=1, record_id="live#1", times=2),
            reconciliation.TargetRow(partition=0, offset=0, record_id="live#0", times=1),
        ]


def test_a_value_without_an_id_is_a_row_that_was_never_produced(store: ReceiverStore, tmp_path: Path) -> None:
    store.add([Arrival("abc-0-0", 0, 0, '"text"', None)], now=NOW)

    with TargetView(tmp_path / "target.sqlite") as view:
        assert [found.record_id for found in view.rows()] == [""]
