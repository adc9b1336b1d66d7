"""Violations that a ledger finds, and those that a volatile sink may commit."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from forebay.client import DropReason
from tests.support.oracles.ledger import Ledger
from tests.support.oracles.records import identity

FORGETTING = frozenset({"LOST_IN_CRASH"})


class GapNotices:
    """A ledger, and the kinds of what it has told."""

    def __init__(self, reasons: Collection[str] = (), *, in_order: bool = True) -> None:
        self.kinds: list[str] = []
        self.ledger = Ledger("orders/0", lambda kind, _: self.kinds.append(kind), reasons=reasons, in_order=in_order)

    def delivered(self, first: int, *numbers: int, written: bool = True) -> None:
        records = [(first + at, identity(1, number)) for at, number in enumerate(numbers)]
        self.ledger.delivered(1, records, written=written)

    def receipt(self, first: int, *numbers: int, written: bool = True, duplicate: bool = False) -> None:
        records = [identity(1, number) for number in numbers]
        self.ledger.receipt(first, records, written=written, duplicate=duplicate)

    def closed(self) -> list[str]:
        self.ledger.close()
        return self.kinds


def test_what_had_a_receipt_and_never_comes_is_lost() -> None:
    told = GapNotices()
    told.receipt(0, 1, 2)
    told.delivered(0, 1)

    assert told.closed() == ["lost"]


@pytest.mark.parametrize("reasons", [frozenset[str](), FORGETTING])
def test_an_offset_that_is_used_twice_is_noticed_whatever_the_sink_may_forget(reasons: frozenset[str]) -> None:
    told = GapNotices(reasons)
    told.delivered(0, 1, 2, written=False)
    told.ledger.gap(0, 1, {DropReason.LOST_IN_CRASH: 2})
    told.kinds.clear()

    told.receipt(1, 3)

    assert told.kinds == ["lost"]


@pytest.mark.parametrize(
    ("reasons", "counts", "violations"),
    [
        ((), {DropReason.LOST_IN_CRASH: 2}, ["lost"]),
        (FORGETTING, {DropReason.LOST_IN_CRASH: 2}, []),
        (FORGETTING, {DropReason.OVERFLOW: 2}, ["lost"]),
        (FORGETTING, {DropReason.CORRUPT: 2}, ["lost"]),
        (("WIPED_AT_START",), {DropReason.WIPED_AT_START: 2}, []),
    ],
)
def test_only_what_a_sink_may_lose_may_be_a_gap(
    reasons: Collection[str], counts: Mapping[DropReason, int], violations: list[str]
) -> None:
    told = GapNotices(reasons)
    told.receipt(0, 1, 2, written=False)

    told.ledger.gap(0, 1, counts)

    assert told.closed() == violations


@pytest.mark.parametrize("how", ["receipt", "delivery"])
def test_a_crash_may_take_what_memory_held_and_nothing_that_was_written(how: str) -> None:
    told = GapNotices(FORGETTING)
    told.receipt(0, 1, 2, written=False)
    if how == "receipt":
        told.receipt(2, 3)
    else:
        told.delivered(2, 3)
        told.kinds.clear()

    told.ledger.gap(0, 2, {DropReason.LOST_IN_CRASH: 3})

    assert "lost" in told.kinds


def test_what_was_written_may_go_for_another_reason_beside_a_crash() -> None:
    told = GapNotices({*FORGETTING, "OVERFLOW"})
    told.receipt(0, 1, 2)
    told.receipt(2, 3, written=False)

    told.ledger.gap(0, 2, {DropReason.LOST_IN_CRASH: 1, DropReason.OVERFLOW: 2})

    assert told.closed() == []


def test_what_was_acked_may_lie_in_a_gap() -> None:
    told = GapNotices(FORGETTING)
    told.delivered(0, 1)
    told.ledger.acking(0, 0)

    told.ledger.gap(0, 1, {DropReason.LOST_IN_CRASH: 1})

    assert told.closed() == []


@pytest.mark.parametrize(("reasons", "violations"), [((), ["duplicates"]), (FORGETTING, [])])
def test_without_a_receipt_a_record_is_sent_again_and_is_stored_twice_only_where_the_first_was_forgotten(
    reasons: Collection[str], violations: list[str]
) -> None:
    told = GapNotices(reasons)
    told.delivered(0, 1, written=False)
    told.delivered(1, 1)

    assert told.closed() == violations


def test_what_has_a_receipt_is_stored_once_in_every_sink() -> None:
    told = GapNotices(FORGETTING)
    told.receipt(0, 1, written=False)
    told.delivered(0, 1, 1)

    assert told.closed() == ["duplicates"]


@pytest.mark.parametrize(
    ("reasons", "duplicate", "violations"),
    [((), True, ["disorder"]), (FORGETTING, False, ["disorder"]), (FORGETTING, True, [])],
)
def test_what_was_forgotten_may_only_come_behind_what_was_stored_before_it_was_sent_again(
    reasons: Collection[str], duplicate: bool, violations: list[str]
) -> None:
    told = GapNotices(reasons)
    told.receipt(0, 2, duplicate=duplicate)
    told.receipt(1, 1)
    told.delivered(0, 2, 1)

    assert told.closed() == violations


@pytest.mark.parametrize("reasons", [frozenset[str](), FORGETTING])
def test_what_was_passed_over_may_not_come_later_in_strict_order(reasons: frozenset[str]) -> None:
    told = GapNotices(reasons)
    told.delivered(1, 2)
    told.delivered(0, 1)

    assert told.kinds == ["disorder"]
