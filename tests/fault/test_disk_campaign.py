"""The campaign of `make fault-disk`, a few of each kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.broker.storage.store.rocks.store import RocksStore
from tests.fault.disk_campaign import KINDS, Value, campaign, templates
from tests.support.storage.disk_directory import SMALL_STORE


def test_every_value_that_is_to_be_damaged_is_there(tmp_path: Path) -> None:
    for template, directory in templates(tmp_path).items():
        store = RocksStore(directory, settings=SMALL_STORE)
        for at, damage in KINDS.values():
            if at == template and isinstance(damage, Value):
                assert None not in store.get_many(damage.family, damage.names)
        store.close()


@pytest.mark.campaign
@pytest.mark.parametrize("kind", KINDS)
def test_no_damage_goes_unnoticed_and_every_directory_starts_or_can_be_repaired(kind: str) -> None:
    stories: list[str] = []

    [row] = campaign(4, 1_000, [kind], stories.append)

    assert stories == []
    assert (row.trials, row.undetected, row.failed_starts, row.others_harmed) == (4, 0, 0, 0)
    assert row.unharmed + row.repaired_at_start + row.gaps + row.repaired == 4
