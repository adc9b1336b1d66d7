from __future__ import annotations

import logging

import pytest

from forebay.broker.core.partition.pages import DropReason
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.sink.retention.drop_log import DropLog

OVERFLOW = DropReason.OVERFLOW


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage().removeprefix("records were dropped sink=orders ") for record in caplog.records]


@pytest.fixture(autouse=True)
def warnings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)


def test_the_first_drop_is_reported_at_once(caplog: pytest.LogCaptureFixture) -> None:
    DropLog("orders", FakeClock()).dropped(0, OVERFLOW, 5, 10, 15)

    assert lines(caplog) == ["partition=0 reason=OVERFLOW records=5 drops=1 first=10 end=15"]


def test_a_burst_is_one_line_a_second(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    log = DropLog("orders", clock)
    for at in range(1_000):
        log.dropped(0, OVERFLOW, 2, 2 * at, 2 * at + 2)
    log.sweep()
    clock.advance(1.0)
    log.sweep()
    log.sweep()

    assert lines(caplog) == [
        "partition=0 reason=OVERFLOW records=2 drops=1 first=0 end=2",
        "partition=0 reason=OVERFLOW records=1998 drops=999 first=2 end=2000",
    ]


def test_partitions_and_reasons_are_distinguished(caplog: pytest.LogCaptureFixture) -> None:
    log = DropLog("orders", FakeClock())
    log.dropped(0, OVERFLOW, 1, 0, 1)
    log.dropped(1, OVERFLOW, 1, 4, 5)
    log.dropped(1, DropReason.CORRUPT, 1, 9, 10)

    log.flush()

    assert lines(caplog)[1:] == [
        "partition=1 reason=OVERFLOW records=1 drops=1 first=4 end=5",
        "partition=1 reason=CORRUPT records=1 drops=1 first=9 end=10",
    ]


def test_after_a_quiet_second_a_drop_is_reported_at_once_again(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    log = DropLog("orders", clock)
    log.dropped(0, OVERFLOW, 1, 0, 1)
    clock.advance(1.0)
    log.dropped(0, OVERFLOW, 1, 1, 2)

    assert len(lines(caplog)) == 2
