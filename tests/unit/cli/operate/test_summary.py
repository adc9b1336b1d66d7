"""The running summary of deliveries."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from forebay.cli.operate.summary import Line, Summary, line_of, log
from forebay.deliver import Totals

ORDERS, AUDIT = ("orders", "default"), ("orders", "audit")


def line(totals: Totals, *, per_s: float = 0.0, waiting: int | None = 0) -> Line:
    """The summary of one delivery."""
    return Line(ORDERS, totals, per_s, waiting)


class Case:
    """Deliveries whose counts and time a test sets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.totals = {ORDERS: Totals()}
        self.waiting: dict[tuple[str, str], int | None] = {}
        self.asked = 0
        self.summary = Summary(lambda: self.totals, self.wait, clock=lambda: self.now)

    def wait(self, place: tuple[str, str]) -> int | None:
        """Answer of the broker."""
        self.asked += 1
        return self.waiting.get(place)


def test_the_rate_is_that_since_the_last_summary() -> None:
    case = Case()
    case.now, case.totals = 10.0, {ORDERS: Totals(delivered=50)}
    [first] = case.summary.lines()
    case.now, case.totals = 14.0, {ORDERS: Totals(delivered=90), AUDIT: Totals(delivered=8)}

    second = case.summary.lines()

    assert first.per_s == 5.0
    assert [(each.place, each.per_s) for each in second] == [(ORDERS, 10.0), (AUDIT, 2.0)]


def test_a_delivery_that_was_started_again_counts_from_zero() -> None:
    case = Case()
    case.now, case.totals = 10.0, {ORDERS: Totals(delivered=50)}
    case.summary.lines()
    case.now, case.totals = 11.0, {ORDERS: Totals(delivered=3)}

    assert case.summary.lines()[0].per_s == 3.0


def test_the_broker_is_not_asked_more_often_than_wanted() -> None:
    case = Case()
    case.waiting[ORDERS] = 7
    found = []
    for _ in range(10):
        case.now += 1.0
        found += case.summary.lines(ask_after_s=5.0)

    assert (case.asked, found[-1].waiting) == (2, 7)


def test_the_event_has_every_figure(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "forebay.deliver")

    log([line(Totals(5_000, 12, 3, 8.0), per_s=250.0, waiting=None)])

    assert caplog.messages == [
        "deliveries were summarized sink=orders subscription=default delivered=5000 per_s=250.0 waiting=unknown "
        "failed_attempts=12 rejected=3 failing_s=8.0"
    ]


def test_an_idle_delivery_has_no_event(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "forebay.deliver")
    idle = line(Totals(delivered=5))

    log([idle])
    assert caplog.messages == []

    log([replace(idle, waiting=1)])
    log([replace(idle, totals=Totals(failing_s=0.0))])
    assert len(caplog.messages) == 2


def test_the_line_sums_all_deliveries() -> None:
    lines = [
        line(Totals(5_000, 12, 3, 65.0), per_s=1_250.0, waiting=40),
        replace(line(Totals(1_000), per_s=750.0, waiting=2), place=AUDIT),
    ]

    assert line_of(lines[1:]).plain == "1,000 delivered  750/s  2 waiting"
    assert line_of(lines).plain == (
        "6,000 delivered  2,000/s  42 waiting  12 failed attempts  3 rejected  1 of 2 targets fail since 1 min 5 s"
    )
    assert "waiting unknown" in line_of([*lines, line(Totals(), waiting=None)]).plain
