"""The report of a fleet shows each kind of fault, and fails where a guarantee was broken."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fault_fleet.report import END, FleetReport, Row, quantile
from tests.support.campaigns.report import FATAL, Report

NOTHING: Any = dict.fromkeys(
    ("kills", "kills_while_starting", "stops", "acknowledged", "delivered", "redelivered", "dropped", "gaps"), 0
) | dict.fromkeys(("given_up", "purges", "seeks", "elapsed_s", "seed", *FATAL), 0)
CAMPAIGN = Report(**NOTHING, dead_letters={}, shard={}, cells={})


def report(row: Row) -> FleetReport:
    return FleetReport("directory", {"kill": row, END: Row()}, 5, 0, (16, 2), CAMPAIGN)


def test_the_table_has_a_row_for_each_kind_and_their_sum() -> None:
    found = report(Row(faults=2, takeovers=2, receipts=70, beyond_s=[0.5, 0.7])).table().splitlines()

    assert [line.split()[0] for line in found] == ["fault", "kill", "comparison", "all"]
    assert found[1].split() == ["kill", "2", "2", "70", "0", "0", "0", "0", "0.60", "0.70"]
    assert found[2].split()[-2:] == ["-", "-"]


def test_the_line_has_the_same_figures() -> None:
    found = json.loads(report(Row(faults=2, takeovers=2, receipts=70, beyond_s=[0.5, 0.7])).line())

    assert found["ok"] is True
    assert found["faults"]["all"]["receipts"] == 70
    assert found["faults"]["kill"]["beyond_p99_s"] == 0.7


@pytest.mark.parametrize("broken", ["lost", "doubled", "after_fence", "other"])
def test_one_broken_guarantee_fails_the_campaign(broken: str) -> None:
    row = Row(faults=1)
    setattr(row, broken, 1)

    assert report(Row(faults=1)).ok
    assert not report(row).ok


def test_a_quantile_of_few_values_is_the_largest() -> None:
    assert quantile([3.0, 1.0, 2.0], 0.99) == 3.0
    assert quantile([], 0.99) == 0.0
