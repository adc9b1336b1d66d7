"""Open streams of publishers are joined with the producers that the sinks remember."""

from __future__ import annotations

import json

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.cli import run
from forebay.cli.exits import ExitCode
from forebay.client import Client, Record
from forebay.client.values.epochs import EpochCommit, Stage


def test_epochs_and_open_publishers_are_in_one_list(capsys: pytest.CaptureFixture[str]) -> None:
    with BrokerServer.in_memory() as broker, Client(broker.endpoint) as client:
        for name in ("orders", "other"):
            client.sinks.create(name)
        stage = Stage(producer="p", epoch=7, run="r", ticket=client.epochs.take_ticket("orders"), write_name="nightly")
        with client.publisher("orders", stage=stage) as staging:
            staging.send_many([b"a", b"b"])
            staging.flush()
            token = staging.staged()
        client.epochs.commit([EpochCommit.of("orders", stage, [token])])
        with client.publisher("orders", writer_id="w1") as publisher:
            publisher.send(b"x").result()
            client.publish("other", [Record(b"y")])

            assert run(["producers", "list", "orders", "-e", broker.endpoint, "-o", "json"]) == ExitCode.OK
            found = {one["producer"]: one for one in json.loads(capsys.readouterr().out)}
            assert run(["producers", "list", "other", "-e", broker.endpoint, "-o", "json"]) == ExitCode.OK
            elsewhere = json.loads(capsys.readouterr().out)
            assert run(["producers", "list", "-e", broker.endpoint]) == ExitCode.OK
            table = capsys.readouterr().out

    assert sorted(found) == ["nightly", "w1"]
    assert (found["nightly"]["kind"], found["nightly"]["last_epoch"]) == ("epochs", 7)
    assert found["nightly"]["committed_at"] is not None
    assert (found["w1"]["kind"], found["w1"]["last_epoch"], found["w1"]["streams"]) == ("publisher", None, 1)
    assert found["w1"]["records"] == 1
    assert elsewhere == []
    assert "2 producers" in table


def test_producers_of_a_sink_that_does_not_exist_are_not_found(capsys: pytest.CaptureFixture[str]) -> None:
    with BrokerServer.in_memory() as broker:
        assert run(["producers", "list", "nothing", "-e", broker.endpoint]) == ExitCode.NOT_FOUND
