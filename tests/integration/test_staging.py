"""Staging and committing over real gRPC: through lost answers, over sinks, and through a broker that is killed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.client import (
    Client,
    ClientSettings,
    DeadlineExceeded,
    EpochCommit,
    RetryPolicy,
    SinkNotFound,
    Stage,
    StagedPart,
    StagedToken,
)
from forebay.errors.reasons import Reason
from tests.support.calls.eventually import values_of
from tests.support.processes.stopping import StoppingLauncher
from tests.support.proxies.tcp import TcpProxy
from tests.support.refusals import failure

IMPATIENT = ClientSettings(call_timeout_s=1.0, retry=RetryPolicy(tries_max=1))


def stage_of(client: Client, *, epoch: int = 0, run: str = "run-1", sink: str = "orders") -> Stage:
    """Return a stage of a run that begins now."""
    return Stage("query", epoch, run, client.epochs.take_ticket(sink), write_name="w")


def test_staged_records_become_visible_with_their_commit_and_the_committed_epoch_can_be_queried(client: Client) -> None:
    client.sinks.create("orders", partitions=2)
    stage = stage_of(client, epoch=7)
    with client.publisher("orders", stage=stage, page_records=2) as publisher:
        publisher.send_many([b"a", b"b", b"c"], partition=0)
        publisher.send(b"d", partition=1)
        publisher.flush()
        staged = publisher.staged()

    assert staged.parts == (StagedPart(0, pages=2, records=3), StagedPart(1, pages=1, records=1))
    assert client.sinks.stats("orders").records == 0
    with failure(Reason.EPOCH_NOT_FOUND):
        client.epochs.get("orders", "query")

    committed = client.epochs.commit([EpochCommit.of("orders", stage, [staged])])

    assert [values_of(client, "orders", partition) for partition in (0, 1)] == [[b"a", b"b", b"c"], [b"d"]]
    assert client.epochs.get("orders", "query") == client.epochs.get("orders", "query", 7) == committed.epochs[0]
    [producer] = client.epochs.list("orders")
    assert (producer.producer, producer.last_epoch, producer.staged_records) == ("query", 7, 0)


def test_a_token_in_many_partitions_is_committed_by_its_summary_and_refused_by_another_one(client: Client) -> None:
    client.sinks.create("orders", partitions=40)
    stage = stage_of(client)
    with client.publisher("orders", stage=stage) as publisher:
        for partition in range(40):
            publisher.send_many([b"%d" % partition] * (1 + partition % 3), partition=partition)
        publisher.flush()
        staged = publisher.staged().summarized

    assert staged.parts == ()
    assert staged.summary is not None
    wrong = replace(staged, summary=replace(staged.summary, digest=b"x" * 16))
    with failure(Reason.STAGED_INCOMPLETE, match="40 pages"):
        client.epochs.commit([EpochCommit.of("orders", stage, [wrong])])
    committed = client.epochs.commit([EpochCommit.of("orders", stage, [staged])])

    assert sum(part.records for part in committed.epochs[0].parts) == staged.records
    assert [values_of(client, "orders", at) for at in (0, 2)] == [[b"0"], [b"2"] * 3]


def test_one_commit_makes_several_sinks_visible_or_none(client: Client) -> None:
    commits = []
    for sink in ("left", "right"):
        client.sinks.create(sink)
        stage = stage_of(client, sink=sink)
        with client.publisher(sink, stage=stage) as publisher:
            publisher.send(sink.encode()).result(10)
            commits.append(EpochCommit.of(sink, stage, [publisher.staged()]))
    missing = replace(commits[1], tokens=(StagedToken("nobody", (StagedPart(0, 1, 1),)),))

    with failure(Reason.STAGED_INCOMPLETE):
        client.epochs.commit([commits[0], missing])
    assert [client.sinks.stats(sink).records for sink in ("left", "right")] == [0, 0]

    assert len(client.epochs.commit(commits).epochs) == 2
    assert [values_of(client, sink) for sink in ("left", "right")] == [[b"left"], [b"right"]]


def test_a_commit_whose_answer_was_lost_is_made_again_and_adds_nothing(broker: BrokerServer, client: Client) -> None:
    client.sinks.create("orders")
    stage = stage_of(client)
    with TcpProxy(broker.endpoint) as proxy, Client(proxy.endpoint, settings=IMPATIENT) as far:
        with far.publisher("orders", stage=stage) as publisher:
            publisher.send(b"row").result(10)
            commit = EpochCommit.of("orders", stage, [publisher.staged()])
        proxy.lose_answers()
        with pytest.raises(DeadlineExceeded):
            far.epochs.commit([commit], patience_s=0)
        proxy.cut()

        assert far.epochs.commit([commit], patience_s=30).already_committed

    assert values_of(client, "orders") == [b"row"]


def test_tickets_and_epochs_of_a_sink_that_is_not_there(client: Client) -> None:
    with pytest.raises(SinkNotFound):
        client.epochs.take_ticket("nowhere")
    with pytest.raises(SinkNotFound):
        list(client.epochs.list("nowhere"))
    with pytest.raises(SinkNotFound):
        client.epochs.commit([EpochCommit("nowhere", "query", 0, "run", 1)])


def test_a_sink_in_memory_takes_no_stage(client: Client) -> None:
    client.sinks.create("quick", buffer_mode="MEMORY")

    with failure(Reason.STAGING_UNSUPPORTED):
        client.publisher("quick", stage=stage_of(client, sink="quick"))


def test_a_publisher_continues_staging_through_a_broker_that_is_killed_and_the_commit_holds(
    launcher: StoppingLauncher, tmp_path: Path
) -> None:
    broker = launcher.start(tmp_path / "store", "127.0.0.1:0")
    listen = broker.ready()
    with Client(listen) as client:
        client.sinks.create("orders")
        stage = stage_of(client)
        publisher = client.publisher("orders", stage=stage, linger_ms=0, page_records=10)
        for round_number in range(3):
            publisher.send_many([b"%d-%d" % (round_number, number) for number in range(100)], partition=0)
            if round_number < 2:
                broker.kill()
                broker = launcher.start(tmp_path / "store", listen)
        publisher.flush()
        commit = EpochCommit.of("orders", stage, [publisher.staged()])
        publisher.close()
        broker.kill()
        broker = launcher.start(tmp_path / "store", listen)

        assert not client.epochs.commit([commit]).already_committed
        broker.kill()
        broker = launcher.start(tmp_path / "store", listen)

        assert client.epochs.commit([commit]).already_committed
        assert values_of(client, "orders") == [b"%d-%d" % (r, n) for r in range(3) for n in range(100)]
        assert client.sinks.stats("orders").identity_ok
