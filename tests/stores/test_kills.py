"""A few kills of consumers whose positions are on a real server: `make fault-positions` has more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fault.positions_campaign import FATAL, GUARANTEES, campaign, urls


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("store", ["postgresql", "s3", "gs"])
def test_kills_of_a_consumer_break_no_promise_on_a_server(
    store: str, guarantee: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    with urls([store], monkeypatch.setenv) as places:
        found = campaign(places[store](f"kills_{guarantee}"), guarantee, 4, 7, tmp_path, told.append)

    assert told == []
    assert [getattr(found, name) for name in FATAL] == [0] * len(FATAL)
