"""A broker's directory becomes a shard and returns: its clients continue, and nothing is lost or delivered twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from forebay.cli import run
from forebay.cli.exits import ExitCode
from forebay.client import Client, Record, ReplayedRecord
from tests.support.processes.broker import BrokerProcess, Launcher, free_port, serve_command
from tests.support.storage.stored_broker import Facts, check_state, commit_staged, read_on, values_of, work

AFTER_S = 1.0


class Broker:
    """One endpoint, served from one directory after the other."""

    def __init__(self, launcher: Launcher, folder: Path) -> None:
        self._launcher, self._folder = launcher, folder
        self.endpoint = f"127.0.0.1:{free_port()}"
        self.journal = folder / "journal"

    def serve(self, name: str) -> BrokerProcess:
        """Serve a directory without a journal."""
        return self._launcher.start(self._folder / name, self.endpoint)

    def serve_shard(self, name: str) -> BrokerProcess:
        """Serve the journal, from a directory of its own."""
        settings = {"journal": str(self.journal), "takeover_after_s": AFTER_S}
        return self._launcher.start(self._folder / name, self.endpoint, **settings)

    def move(self, direction: str, name: str) -> int:
        """Import or export a directory; returns the exit code."""
        words = ["--journal", str(self.journal), "--data-dir", str(self._folder / name)]
        return run(["journal", direction, *words, *(["--takeover-after", "1s"] if direction == "export" else [])])


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Launcher() as launcher:
        yield Broker(launcher, tmp_path)


def with_another_order(facts: Facts, value: bytes) -> Facts:
    """The facts after one more record, and the reading of the consumer that saves its position."""
    values = {**facts.values, "orders": [*facts.values["orders"], value.decode()]}
    pending = {name: count + name.startswith("orders/") for name, count in facts.pending.items()}
    return replace(facts, values=values, pending=pending)


def test_everything_of_a_broker_is_served_by_its_shard_and_by_a_broker_again(broker: Broker) -> None:
    with broker.serve("old") as old:
        with Client(old.ready()) as client:
            facts = work(client)
        assert old.terminate() == 0
    assert broker.move("import", "old") == ExitCode.OK

    with broker.serve_shard("a") as owner:
        with Client(owner.ready()) as client:
            check_state(client, facts)
            client.publish("orders", [Record(b"order 10")])
            facts = with_another_order(facts, b"order 10")
            check_state(client, facts)
            assert read_on(client) == [b"order %d" % number for number in range(facts.position, 11)]
        assert owner.terminate() == 0
    assert broker.move("export", "out") == ExitCode.OK

    with broker.serve("out") as again, Client(again.ready()) as client:
        check_state(client, facts)
        assert read_on(client) == []
        client.publish("orders", [Record(b"order 11")])
        assert read_on(client) == [b"order 11"]
        commit_staged(client, facts)
        assert values_of(client, "exact") == [f"epoch {epoch}" for _ in range(2) for epoch in range(3)]


def test_publishers_and_subscribers_that_run_meanwhile_continue(broker: Broker) -> None:
    sent = [b"%d" % number for number in range(30)]
    delivered: list[bytes] = []
    with Client(broker.endpoint) as client:
        process = broker.serve("old")
        process.ready()
        client.sinks.create("orders")
        with client.publisher("orders") as publisher, client.subscriber("orders") as subscriber:

            def pass_on(values: list[bytes]) -> None:
                for value in values:
                    publisher.send(value).result()
                wanted = len(delivered) + len(values)
                while len(delivered) < wanted:
                    delivery = next(subscriber)
                    delivered.extend(record.value for record in delivery)
                    delivery.ack(wait=True)

            pass_on(sent[:10])
            with process:
                assert process.terminate() == 0
            assert broker.move("import", "old") == ExitCode.OK
            with broker.serve_shard("a") as process:
                process.ready()
                pass_on(sent[10:20])
                assert process.terminate() == 0
            assert broker.move("export", "out") == ExitCode.OK
            with broker.serve("out") as process:
                process.ready()
                pass_on(sent[20:])

    assert delivered == sent


def test_a_broker_that_serves_is_neither_imported_nor_exported(broker: Broker) -> None:
    with broker.serve("old") as old:
        old.ready()
        assert broker.move("import", "old") == ExitCode.REFUSED
        assert old.terminate() == 0
    assert broker.move("import", "old") == ExitCode.OK

    with broker.serve_shard("a") as owner:
        with Client(owner.ready()) as client:
            client.sinks.create("orders")
            assert broker.move("export", "out") == ExitCode.REFUSED
            client.publish("orders", [Record(b"1")])
        owner.kill()

    assert broker.move("export", "out") == ExitCode.OK
    with broker.serve("out") as again, Client(again.ready()) as client, client.replay("orders") as replay:
        assert [record.value for record in replay if isinstance(record, ReplayedRecord)] == [b"1"]


def test_a_frozen_owner_confirms_nothing_after_the_export_and_no_broker_takes_over(
    broker: Broker, tmp_path: Path
) -> None:
    with broker.serve_shard("a") as owner:
        with Client(owner.ready()) as client:
            client.sinks.create("orders")
        os.kill(owner.pid, signal.SIGSTOP)
        assert broker.move("export", "out") == ExitCode.OK
        os.kill(owner.pid, signal.SIGCONT)
        assert owner.wait() == 1

    with serve_command(tmp_path / "b", environment={"FOREBAY_JOURNAL": str(broker.journal)}) as follower:
        assert follower.wait(120.0) == ExitCode.FAILED
        assert "the store has left" in follower.log.read_text()
