"""The campaign of `make fault-disk`, a few of each kind. I11, R17, R21."""

from __future__ import annotations

import pytest

from tests.fault.disk_campaign import KINDS, campaign


@pytest.mark.parametrize("kind", KINDS)
def test_no_damage_goes_unnoticed_and_every_directory_starts_or_can_be_repaired(kind: str) -> None:
    told: list[str] = []

    [row] = campaign(4, 1_000, [kind], told.append)

    assert told == []
    assert (row.trials, row.undetected, row.failed_starts, row.others_harmed) == (4, 0, 0, 0)
    assert row.unharmed + row.mended + row.gaps + row.repaired == 4
