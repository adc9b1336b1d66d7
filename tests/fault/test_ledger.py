"""Violations that a ledger finds, and those that a volatile sink may commit."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from forebay.client import DropReason
from tests.support.oracles.ledger import Ledger
from tests.support.oracles.records import identity

FORGETTING = frozenset({"LOST_IN_CRASH"})


class GapNotices:
    """A ledger, and the kinds of the violations that it has reported."""

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


def test_a_record_with_a_receipt_that_is_never_delivered_is_lost() -> None:
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
def test_a_gap_is_a_loss_unless_its_reason_is_allowed_for_the_sink(
    reasons: Collection[str], counts: Mapping[DropReason, int], violations: list[str]
) -> None:
    told = GapNotices(reasons)
    told.receipt(0, 1, 2, written=False)

    told.ledger.gap(0, 1, counts)

    assert told.closed() == violations


@pytest.mark.parametrize("how", ["receipt", "delivery"])
def test_a_written_record_in_a_gap_of_a_crash_is_lost(how: str) -> None:
    told = GapNotices(FORGETTING)
    told.receipt(0, 1, 2, written=False)
    if how == "receipt":
        told.receipt(2, 3)
    else:
        told.delivered(2, 3)
        told.kinds.clear()

    told.ledger.gap(0, 2, {DropReason.LOST_IN_CRASH: 3})

    assert "lost" in told.kinds


def test_a_written_record_may_be_dropped_by_overflow_in_a_gap_that_also_counts_a_record_lost_in_a_crash() -> None:
    told = GapNotices({*FORGETTING, "OVERFLOW"})
    told.receipt(0, 1, 2)
    told.receipt(2, 3, written=False)

    told.ledger.gap(0, 2, {DropReason.LOST_IN_CRASH: 1, DropReason.OVERFLOW: 2})

    assert told.closed() == []


def test_an_acked_record_may_lie_in_a_gap() -> None:
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


def test_a_record_with_a_receipt_that_is_delivered_at_two_offsets_is_a_duplicate_in_a_volatile_sink_too() -> None:
    told = GapNotices(FORGETTING)
    told.receipt(0, 1, written=False)
    told.delivered(0, 1, 1)

    assert told.closed() == ["duplicates"]


@pytest.mark.parametrize(
    ("reasons", "duplicate", "violations"),
    [((), True, ["disorder"]), (FORGETTING, False, ["disorder"]), (FORGETTING, True, [])],
)
def test_records_out_of_order_are_disorder_unless_a_volatile_sink_confirmed_the_later_one_as_a_duplicate(
    reasons: Collection[str], duplicate: bool, violations: list[str]
) -> None:
    told = GapNotices(reasons)
    told.receipt(0, 2, duplicate=duplicate)
    told.receipt(1, 1)
    told.delivered(0, 2, 1)

    assert told.closed() == violations


@pytest.mark.parametrize("reasons", [frozenset[str](), FORGETTING])
def test_a_record_delivered_after_one_of_a_higher_offset_is_disorder_in_strict_order(reasons: frozenset[str]) -> None:
    told = GapNotices(reasons)
    told.delivered(1, 2)
    told.delivered(0, 1)

    assert told.kinds == ["disorder"]
