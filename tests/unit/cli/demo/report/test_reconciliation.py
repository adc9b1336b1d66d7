"""The reconciliation finds every kind of wrong, and only what is wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.cli.demo.report.reconciliation import Account, TargetRow, reconcile


def account(partition: int = 0, *, records: int) -> Account:
    return Account(
        partition,
        start_offset=0,
        next_offset=records,
        acked=records,
        dead_lettered=0,
        dropped=0,
        skipped=0,
        pending=0,
    )


def arrivals(*offsets: int, partition: int = 0) -> list[TargetRow]:
    return [TargetRow(partition, offset, f"live#{offset}", times=1) for offset in offsets]


IDS = ("live#0", "live#1", "live#2")


def test_a_run_in_which_everything_arrived_in_order_is_ok() -> None:
    result = reconcile(IDS, arrivals(0, 1, 2), [account(records=3)])

    assert result.ok
    assert (result.records_in, result.published, result.delivered) == (3, 3, 3)


def test_a_record_that_is_nowhere_is_lost() -> None:
    result = reconcile(IDS, arrivals(0, 1), [account(records=2)])

    assert result.lost == 1
    assert not result.ok


def test_an_offset_that_was_received_twice_is_a_duplicate_and_no_failure() -> None:
    twice = replace(arrivals(1)[0], times=3)

    result = reconcile(IDS, [*arrivals(0), twice, *arrivals(2)], [account(records=3)])

    assert result.duplicates == 2
    assert result.ok


def test_a_record_under_two_offsets_is_republished_and_counts_once() -> None:
    again = TargetRow(0, 3, "live#0", times=1)

    result = reconcile(IDS, [*arrivals(0, 1, 2), again], [account(records=4)])

    assert (result.republished, result.delivered, result.published, result.lost) == (1, 3, 4, 0)
    assert result.ok


def test_a_lower_offset_after_a_higher_one_is_out_of_order() -> None:
    result = reconcile(IDS, arrivals(0, 2, 1), [account(records=3)])

    assert result.out_of_order == 1
    assert not result.ok


def test_order_is_a_matter_of_one_partition() -> None:
    other = [TargetRow(1, 0, "live#2", times=1)]

    result = reconcile(IDS, [*arrivals(0, 1), *other], [account(records=2), account(1, records=1)])

    assert result.out_of_order == 0
    assert result.ok


def test_a_row_that_the_source_never_produced_is_unknown() -> None:
    result = reconcile(IDS[:2], arrivals(0, 1, 2), [account(records=3)])

    assert result.unknown == 1
    assert not result.ok


@pytest.mark.parametrize("field", ["acked", "dead_lettered", "dropped", "skipped", "pending", "next_offset"])
def test_an_account_that_does_not_balance_breaks_the_identity(field: str) -> None:
    good = account(records=3)

    wrong = replace(good, **{field: getattr(good, field) + 1})

    assert not reconcile(IDS, arrivals(0, 1, 2), [wrong]).identity_ok


def test_an_account_that_claims_acks_of_rows_that_are_not_there_breaks_the_identity() -> None:
    assert not reconcile(IDS, arrivals(0, 1), [account(records=3)]).identity_ok


def test_without_an_account_there_is_no_identity() -> None:
    assert not reconcile(IDS, arrivals(0, 1, 2), []).identity_ok


@given(lost=st.sets(st.integers(0, 40)), repeated=st.dictionaries(st.integers(0, 40), st.integers(2, 5)))
def test_lost_and_duplicates_are_exact_whatever_goes_missing_or_is_repeated(
    lost: set[int], repeated: dict[int, int]
) -> None:
    there = [offset for offset in range(41) if offset not in lost]
    rows = [TargetRow(0, offset, f"live#{offset}", repeated.get(offset, 1)) for offset in there]

    result = reconcile((f"live#{number}" for number in range(41)), rows, [account(records=41)])

    assert result.lost == len(lost)
    assert result.duplicates == sum(times - 1 for offset, times in repeated.items() if offset not in lost)
