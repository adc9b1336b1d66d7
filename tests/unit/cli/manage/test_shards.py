"""`forebay shard list`, against owners with prepared answers."""

from __future__ import annotations

import json

import pytest

from forebay.cli import run
from forebay.cli.exits import ExitCode
from tests.support.calls.fleet_fake import fleet_of


def test_the_list_of_shards_reports_a_name_that_exists_twice(capsys: pytest.CaptureFixture[str]) -> None:
    with fleet_of({"a": ["orders"], "b": ["orders"]}) as owners:
        assert run(["shard", "list", "-e", f"forebay://{owners['a'].address}"]) == ExitCode.OK
        said = capsys.readouterr()
        assert run(["shard", "list", "-e", owners["a"].address, "-o", "json"]) == ExitCode.OK
        as_json = capsys.readouterr()

    assert "2 shards" in said.out
    assert said.err.startswith("forebay: sink 'orders' is in shards ")
    assert "forebay sink delete orders --endpoint 127.0.0.1:" in said.err
    assert [shard["name"] for shard in json.loads(as_json.out)] == ["a", "b"]
    assert json.loads(as_json.err)["message"].startswith("sink 'orders' is in shards ")


def test_the_shards_are_listed_in_an_outage_of_one_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    with fleet_of({"a": ["orders"], "b": ["orders"]}) as owners:
        owners["b"].stop()
        assert run(["shard", "list", "-e", owners["a"].address]) == ExitCode.OK

    said = capsys.readouterr()
    assert "2 shards" in said.out
    assert said.err.startswith("forebay: not every shard was asked for sinks of the same name: ")
