"""The campaign of `make fault-positions`, a few kills of it, and what its oracle notices."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fault.positions_campaign import FATAL, GUARANTEES, campaign

KILLS = 4


@pytest.mark.campaign
@pytest.mark.slow
@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("store", ["broker:", "file:"])
def test_kills_of_a_consumer_break_no_promise(store: str, guarantee: str, tmp_path: Path) -> None:
    said: list[str] = []
    url = store if store == "broker:" else f"file://{tmp_path}/positions"

    found = campaign(url, guarantee, KILLS, 7, tmp_path, said.append)

    assert said == []
    assert [getattr(found, name) for name in FATAL] == [0] * len(FATAL)
    assert found.kills >= KILLS
    assert found.positions_seen > 0


@pytest.mark.campaign
@pytest.mark.slow
@pytest.mark.parametrize(("judged_by", "consumers"), [GUARANTEES, GUARANTEES[::-1]])
def test_the_oracle_notices_consumers_with_another_guarantee(judged_by: str, consumers: str, tmp_path: Path) -> None:
    said: list[str] = []

    found = campaign(f"file://{tmp_path}/positions", judged_by, KILLS, 7, tmp_path, said.append, consumers=consumers)

    assert found.skipped + found.repeated + found.positions_wrong > 0
    assert said
