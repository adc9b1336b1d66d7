"""A broker of a shard that is cut off its bucket or its topic; ``make fault-fleet ENGINE=minio`` has more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fault_fleet.campaign import Plan, run


@pytest.mark.timeout(900)
@pytest.mark.parametrize("engine", ["minio", "kafka"])
def test_no_receipt_is_lost_doubled_or_given_after_a_fence_by_partitions_from_the_engine(
    engine: str, tmp_path: Path
) -> None:
    messages: list[str] = []

    report = run(engine, Plan(0, 0, 1), 7, tmp_path, messages.append)

    assert report.ok, "\n".join([report.table(), report.line(), *messages])
    assert {kind: row.faults for kind, row in report.rows.items() if row.faults} == {
        "owner to engine": 1,
        "client to owner": 1,
        "follower to engine": 1,
    }
    assert report.total.receipts > 100
