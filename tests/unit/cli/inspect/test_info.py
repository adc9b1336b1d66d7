"""`forebay info` writes its facts for people: times by the rule of all commands."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.broker.runtime.clock import FakeClock
from forebay.cli import run
from forebay.cli.exits import ExitCode


@pytest.fixture
def _in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def broker() -> Iterator[BrokerServer]:
    """A broker whose clock stands still."""
    with BrokerServer.in_memory(clock=FakeClock()) as broker:
        yield broker


@pytest.mark.usefixtures("_in_tokyo")
@pytest.mark.parametrize(("words", "at"), [([], "2023-11-15 07:13:20"), (["--utc"], "2023-11-14 22:13:20Z")])
def test_times_are_local_or_in_utc_on_request(
    words: list[str], at: str, broker: BrokerServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["info", *words, "-e", broker.endpoint]) == ExitCode.OK
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("started at")]

    assert line.removeprefix("started at").strip() == at


def test_times_in_json_have_a_zone(broker: BrokerServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["info", "-e", broker.endpoint, "-o", "json"]) == ExitCode.OK

    assert json.loads(capsys.readouterr().out)["started_at"] == "2023-11-14T22:13:20+00:00"
