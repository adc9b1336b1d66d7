"""Shards of one fleet in broker processes, and clients that know only some of the members."""

from __future__ import annotations

import asyncio
import json
import shutil
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forebay.cli import run
from forebay.cli.exits import ExitCode
from forebay.client import (
    Client,
    EpochCommit,
    InvalidArgument,
    NotOwner,
    ReplayedRecord,
    Sink,
    SinkNotFound,
    Stage,
    aio,
)
from forebay.shards.rendezvous import ranked
from tests.support.calls.eventually import until
from tests.support.processes.broker import BrokerEnded, BrokerProcess, Launcher, free_port

AFTER_S = 1.0
SINKS = [f"topic-{number}" for number in range(10)]


class Members:
    """Brokers by name, each in a directory of its own and with an endpoint of its own."""

    def __init__(self, launcher: Launcher, directory: Path) -> None:
        self._launcher, self._directory = launcher, directory
        self.journal = directory / "journal"
        self.endpoints = {name: f"127.0.0.1:{free_port()}" for name in ("a1", "a2", "b1", "c1")}

    def start(self, name: str, **settings: object) -> BrokerProcess:
        """Start a member; the first letter of its name is that of its shard."""
        return self._launcher.start(
            self._directory / name,
            self.endpoints[name],
            journal=str(self.journal),
            shard=name[0],
            takeover_after_s=AFTER_S,
            **settings,
        )

    def forget(self, name: str) -> None:
        """Delete the directory of a member that has ended, and the journal of its shard."""
        shutil.rmtree(self._directory / name)
        shutil.rmtree(self._directory / "journal" / "shards" / name[0])

    @property
    def address(self) -> str:
        return f"forebay://{','.join(self.endpoints.values())}"


@pytest.fixture
def members(tmp_path: Path) -> Iterator[Members]:
    with Launcher() as launcher:
        yield Members(launcher, tmp_path)


def names_at(endpoint: str) -> set[str]:
    with Client(endpoint) as client:
        return {sink.name for sink in client.sinks.list()}


def know_each_other(*endpoints: str) -> None:
    def complete(endpoint: str) -> bool:
        with Client(endpoint) as client:
            return len(client.shards.list()) == len(endpoints)

    until(lambda: all(complete(endpoint) for endpoint in endpoints), timeout_s=60.0)


def values_of(client: Client, sink: str) -> list[bytes]:
    return [record.value for record in client.replay(sink) if isinstance(record, ReplayedRecord)]


def publish(client: Client, sink: str, *values: bytes) -> None:
    with client.publisher(sink) as publisher:
        publisher.send_many(values)


def test_sinks_are_spread_over_the_shards_and_every_call_finds_its_shard(members: Members) -> None:
    with members.start("a1") as a, members.start("b1") as b:
        know_each_other(a.ready(), b.ready())
        homes = {sink: ranked(sink, ["a", "b"])[0] for sink in SINKS}
        assert set(homes.values()) == {"a", "b"}

        with Client(f"forebay://{members.endpoints['a1']}") as client:
            for sink in SINKS:
                client.sinks.create(sink)
                publish(client, sink, sink.encode())

            assert [sink.name for sink in client.sinks.list()] == SINKS
            for sink in SINKS:
                assert values_of(client, sink) == [sink.encode()]
                for delivery in client.subscriber(sink):
                    assert [record.value for record in delivery] == [sink.encode()]
                    delivery.ack()
                    break
            with pytest.raises(SinkNotFound):
                client.sinks.get("missing")

        assert names_at(a.endpoint) == {sink for sink, home in homes.items() if home == "a"}
        assert names_at(b.endpoint) == {sink for sink, home in homes.items() if home == "b"}


def test_clients_follow_a_shard_to_its_next_owner(members: Members) -> None:
    with members.start("a1") as first, members.start("b1") as other:
        know_each_other(first.ready(), other.ready())
        sink = next(name for name in SINKS if ranked(name, ["a", "b"])[0] == "a")
        with members.start("a2") as follower, Client(members.address) as client:
            client.sinks.create(sink)
            publisher = client.publisher(sink)
            publisher.send(b"1").result(timeout=30.0)
            first.kill()

            late = publisher.send(b"2")
            follower.ready()

            assert late.result(timeout=60.0).first_offset == 1
            publisher.close()
            assert values_of(client, sink) == [b"1", b"2"]
            assert {shard.name: shard.endpoint for shard in client.shards.list()} == {
                "a": follower.endpoint,
                "b": other.endpoint,
            }


def test_a_shard_that_was_recreated_under_its_name_is_found_at_its_new_owner(members: Members) -> None:
    of_a = next(name for name in SINKS if ranked(name, ["a", "b"])[0] == "a")
    with members.start("b1") as other, Client(f"forebay://{members.endpoints['b1']}") as client:
        for _ in range(2):
            with members.start("a1") as former:
                know_each_other(former.ready(), other.ready())
                client.sinks.create(of_a, exist_ok=True)
        [before, _] = client.shards.list()
        members.forget("a1")

        with members.start("a2") as later:
            later.ready()
            until(lambda: client.shards.list()[0].endpoint == later.endpoint, timeout_s=60.0)
            [after, _] = client.shards.list()
            client.sinks.create(of_a)

            assert names_at(later.endpoint) == {of_a}
            assert after.owner_epoch < before.owner_epoch
            assert after.journal != before.journal


def test_a_broker_of_another_shard_names_the_owner_and_creates_nothing(members: Members) -> None:
    with members.start("a1") as a, members.start("b1") as b:
        know_each_other(a.ready(), b.ready())
        sink = next(name for name in SINKS if ranked(name, ["a", "b"])[0] == "b")
        with Client(a.endpoint) as client:
            calls: list[Callable[[str], Sink]] = [client.sinks.get, client.sinks.create]
            for call in calls:
                with pytest.raises(NotOwner) as failure:
                    call(sink)
                assert failure.value.facts["shard"] == "b"
                assert failure.value.facts["endpoint"] == b.endpoint
        assert not names_at(a.endpoint)


def test_a_shard_that_is_added_moves_no_sink_and_doubles_no_name(members: Members) -> None:
    moved = [name for name in SINKS if ranked(name, ["a", "b", "c"])[0] == "c"]
    assert moved
    with members.start("a1") as a, members.start("b1") as b:
        know_each_other(a.ready(), b.ready())
        with Client(members.address) as before:
            for sink in moved:
                before.sinks.create(sink)
                publish(before, sink, b"1")
            with members.start("c1") as c, Client(members.address) as client:
                know_each_other(a.endpoint, b.endpoint, c.ready())

                for sink in moved:
                    publish(client, sink, b"2")
                    client.sinks.create(sink, exist_ok=True)
                    assert values_of(before, sink) == [b"1", b"2"]
                assert not names_at(c.endpoint)

                before.sinks.delete(moved[0], force=True)
                before.sinks.create(moved[0])
                assert names_at(c.endpoint) == {moved[0]}
                publish(client, moved[0], b"3")
                assert values_of(client, moved[0]) == [b"3"]


def test_a_name_that_a_client_of_one_broker_has_created_twice_is_reported_until_one_is_deleted(
    members: Members,
) -> None:
    with members.start("a1") as a, members.start("b1") as b:
        know_each_other(a.ready(), b.ready())
        of_b = next(name for name in SINKS if ranked(name, ["a", "b"])[0] == "b")
        with Client(members.address) as client, Client(a.endpoint) as of_a, Client(b.endpoint) as alone:
            client.sinks.create(of_b, shard="a")
            assert client.shards.repeated() == []
            alone.sinks.create(of_b)

            [found] = client.shards.repeated()
            assert (found.name, [shard.name for shard in found.shards]) == (of_b, ["b", "a"])
            client.sinks.list()
            publish(client, of_b, b"1")
            assert values_of(alone, of_b) == [b"1"]

            of_a.sinks.delete(of_b)
            assert client.shards.repeated() == []
            assert values_of(client, of_b) == [b"1"]


def test_a_commit_across_shards_is_refused_and_sinks_of_one_shard_are_committed_together(members: Members) -> None:
    with members.start("a1") as a, members.start("b1") as b:
        know_each_other(a.ready(), b.ready())
        of_a, of_b = (next(name for name in SINKS if ranked(name, ["a", "b"])[0] == shard) for shard in "ab")
        with Client(members.address) as client:

            def stage(*sinks: str) -> list[EpochCommit]:
                ticket = client.epochs.take_ticket(sinks[0])
                commits = []
                for sink in sinks:
                    staged = Stage(producer="nightly", epoch=1, run="one", ticket=ticket)
                    with client.publisher(sink, stage=staged) as publisher:
                        publisher.send_many([b"x"])
                    commits.append(EpochCommit.of(sink, staged, [publisher.staged()]))
                return commits

            client.sinks.create(of_a)
            client.sinks.create(of_b)
            with pytest.raises(InvalidArgument, match=r"in different shards .*`forebay sink create NAME --shard"):
                client.epochs.commit(stage(of_a, of_b))

            client.sinks.create("beside", shard="a")
            client.sinks.create("with", shard="a")
            client.epochs.commit(stage("beside", "with"))

            assert values_of(client, "beside") == values_of(client, "with") == [b"x"]
        assert names_at(a.endpoint) == {of_a, "beside", "with"}


def test_the_asyncio_client_finds_the_shards_too(members: Members) -> None:
    async def scenario(address: str) -> None:
        async with aio.Client(address) as client:
            for sink in SINKS:
                await client.sinks.create(sink)
                async with await client.publisher(sink) as publisher:
                    await publisher.send(b"x")
            for sink in SINKS:
                found = [record async for record in client.replay(sink)]
                assert [record.value for record in found if isinstance(record, ReplayedRecord)] == [b"x"]
            assert [shard.name for shard in await client.shards.list()] == ["a", "b"]

    with members.start("a1") as a, members.start("b1") as b:
        know_each_other(a.ready(), b.ready())
        asyncio.run(scenario(members.address))


def test_a_shard_of_a_fleet_is_handed_over_by_its_name(members: Members) -> None:
    with members.start("a1") as first, members.start("b1") as other:
        know_each_other(first.ready(), other.ready())
        with members.start("a2") as follower, Client(members.address) as client:
            with pytest.raises(InvalidArgument, match="must be one of a, b"):
                client.shards.hand_over(shard="c")

            client.shards.hand_over(shard="a")

            follower.ready()
            until(lambda: {one.name: one.endpoint for one in client.shards.list()}["a"] == follower.endpoint)


def test_a_shard_without_records_is_removed_and_clients_that_knew_it_continue(members: Members) -> None:
    of_c = next(name for name in SINKS if ranked(name, ["a", "b", "c"])[0] == "c")
    remove = ["shard", "remove", "c", "--journal", str(members.journal), "--takeover-after", "1s", "--yes"]
    with members.start("a1") as a, members.start("b1") as b, Client(members.address) as client:
        with members.start("c1") as c:
            know_each_other(a.ready(), b.ready(), c.ready())
            client.sinks.create(of_c)
            publish(client, of_c, b"1")
            assert names_at(c.endpoint) == {of_c}
            assert run(remove) == ExitCode.REFUSED  # it has a record

            for delivery in client.subscriber(of_c):
                delivery.ack(wait=True)
                break
            assert run(remove) == ExitCode.REFUSED  # it has an owner
            assert c.terminate() == 0
        assert run(remove) == ExitCode.OK

        know_each_other(a.endpoint, b.endpoint)
        with pytest.raises(SinkNotFound):
            publish(client, of_c, b"2")
        client.sinks.create(of_c)
        publish(client, of_c, b"3")
        assert values_of(client, of_c) == [b"3"]
        assert of_c in names_at({"a": a, "b": b}[ranked(of_c, ["a", "b"])[0]].endpoint)

        with members.start("c1") as c, pytest.raises(BrokerEnded, match="was removed from its fleet"):
            c.ready()
        assert [shard.name for shard in client.shards.list()] == ["a", "b"]


def test_a_publisher_of_a_sink_that_was_removed_with_its_shard_fails(members: Members) -> None:
    with members.start("a1") as a, Client(members.address) as client:
        with members.start("c1") as c:
            know_each_other(a.ready(), c.ready())
            client.sinks.create("orders", shard="c")
            publisher = client.publisher("orders")
            publisher.send(b"1").result(timeout=30.0)
            client.sinks.purge("orders")
            assert c.terminate() == 0

        late = publisher.send(b"2")
        assert not late.done()
        assert run(["shard", "remove", "c", "--journal", str(members.journal), "--yes"]) == ExitCode.OK

        with pytest.raises(SinkNotFound):
            late.result(timeout=60.0)
        with pytest.raises(SinkNotFound):
            publisher.close()


def test_the_console_of_an_owner_shows_its_journal_and_the_owners_of_all_shards(members: Members) -> None:
    console = f"127.0.0.1:{free_port()}"

    def overview(path: str) -> str:
        with urllib.request.urlopen(f"http://{console}/{path}", timeout=10) as answer:
            return str(answer.read().decode())

    with members.start("a1", console_listen=console) as a, members.start("b1") as b:
        know_each_other(a.ready(), b.ready())
        with Client(a.endpoint) as client:
            epoch = client.info().owner_epoch
        until(lambda: len(json.loads(overview("overview.json"))["broker"]["shard"]["owners"]) == 2, timeout_s=60.0)

        found = json.loads(overview("overview.json"))["broker"]["shard"]
        page = overview("overview")

    assert found["journal"].endswith("/journal/shards/a")
    assert int(found["epoch"]) == epoch
    assert [(one["name"], one["endpoint"], one["is_this"]) for one in found["owners"]] == [
        ("a", a.endpoint, True),
        ("b", b.endpoint, False),
    ]
    assert f"owner, epoch {epoch}" in page
    assert "Shards of the fleet" in page
    assert "(this broker)" in page
