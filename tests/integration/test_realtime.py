"""The realtime switch over gRPC and on the command line: for a sink, for the broker, and over restarts."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.broker.settings import load
from forebay.broker.storage.store.memory import MemoryStore
from forebay.cli import run
from forebay.cli.exits import ExitCode
from forebay.client import Client, ReaderMode, Record, ReplayedRecord, SinkNotFound
from forebay.errors.reasons import Reason
from tests.support.calls.eventually import until
from tests.support.refusals import failure


def mode_of_a_new_record(client: Client, sink: str = "orders") -> ReaderMode:
    """Publish a record, take it, and return where its reader found it."""
    client.publish(sink, [Record(b"x")])
    with client.subscriber(sink) as deliveries:
        delivery = deliveries.take(20.0)
        assert delivery is not None
        delivery.ack(wait=True)
        return client.sinks.stats(sink).subscriptions[0].partitions[0].mode


def said(client: Client, capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """Return the JSON output of a command that succeeds."""
    assert run(["realtime", *words, "--endpoint", client.endpoints[0], "-o", "json"]) == ExitCode.OK
    return json.loads(capsys.readouterr().out)


def test_a_broker_that_is_switched_off_serves_its_readers_from_the_store_and_frees_the_memory(client: Client) -> None:
    client.sinks.create("orders")
    assert mode_of_a_new_record(client) is ReaderMode.REALTIME
    client.publish("orders", [Record(b"x")])

    state = client.realtime.set(False)

    assert (state.enabled, state.broker_enabled) == (False, False)
    assert client.info().tail_bytes == 0
    assert mode_of_a_new_record(client) is ReaderMode.CATCH_UP
    assert client.realtime.set(True).enabled
    assert mode_of_a_new_record(client) is ReaderMode.REALTIME


def test_one_sink_is_switched_off_and_the_others_stay_in_memory(client: Client) -> None:
    client.sinks.create("orders")
    client.sinks.create("events")

    state = client.realtime.set(False, sink="orders")

    assert (state.enabled, state.broker_enabled) == (False, True)
    assert not client.sinks.get("orders").settings.realtime
    assert mode_of_a_new_record(client, "orders") is ReaderMode.CATCH_UP
    assert mode_of_a_new_record(client, "events") is ReaderMode.REALTIME
    assert client.realtime.set(None, sink="orders").enabled


def test_a_choice_survives_a_restart_and_is_above_the_setting_until_it_is_withdrawn() -> None:
    store = MemoryStore()
    with BrokerServer.in_memory(store) as server, Client(server.endpoint) as client:
        client.sinks.create("orders")
        client.realtime.set(False)
        client.realtime.set(False, sink="orders")
    with BrokerServer.in_memory(store := store.reopen(), realtime=True) as server, Client(server.endpoint) as client:
        off = client.info()
        sink = client.sinks.get("orders").settings.realtime
        back = client.realtime.set(None)
    with BrokerServer.in_memory(store.reopen(), realtime=False) as server, Client(server.endpoint) as client:
        configured = client.info()

    assert (off.realtime, off.realtime_chosen, sink) == (False, True, False)
    assert back.enabled
    assert (configured.realtime, configured.realtime_chosen) == (False, False)


def test_a_choice_survives_a_crash_of_the_power() -> None:
    store = MemoryStore()
    with BrokerServer.in_memory(store) as server, Client(server.endpoint) as client:
        client.realtime.set(False)
        crashed = store.crash()
    with BrokerServer.in_memory(crashed) as server, Client(server.endpoint) as client:
        assert not client.info().realtime


def test_a_sink_that_does_not_exist_or_was_replaced_is_not_switched(client: Client) -> None:
    client.sinks.create("orders")

    with pytest.raises(SinkNotFound):
        client.realtime.set(False, sink="absent")
    with failure(Reason.SINK_REPLACED):
        client.realtime.set(False, sink="orders", incarnation="another")

    assert client.sinks.get("orders").settings.realtime


def test_the_command_switches_and_shows_both_switches(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    client.sinks.create("orders")
    client.sinks.create("events")

    off = said(client, capsys, "off")
    on = said(client, capsys, "on", "orders")
    shown = said(client, capsys, "status")
    one = said(client, capsys, "status", "orders")
    reset = said(client, capsys, "reset")

    assert off == {"sink": None, "realtime": False, "broker": False}
    assert on == {"sink": "orders", "realtime": False, "broker": False}
    assert (shown["realtime"], shown["chosen"]) == (False, True)
    assert [entry["sink"] for entry in shown["sinks"]] == ["events", "orders"]
    assert one["sinks"] == [{"sink": "orders", "realtime": False, "tail_bytes": 0}]
    assert reset["realtime"]
    assert said(client, capsys, "status", "orders")["sinks"][0]["realtime"]


def test_the_lag_of_a_reader_shows_its_mode_and_both_paths(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    client.sinks.create("orders")
    assert mode_of_a_new_record(client) is ReaderMode.REALTIME
    client.realtime.set(False, sink="orders")
    client.publish("orders", [Record(b"x")])
    with client.subscriber("orders") as deliveries:
        assert deliveries.take(20.0) is not None
        assert run(["lag", "orders", "--endpoint", client.endpoints[0], "-o", "json"]) == ExitCode.OK
        [entry] = json.loads(capsys.readouterr().out)
        assert run(["lag", "--paths", "--endpoint", client.endpoints[0]]) == ExitCode.OK

    assert (entry["position"], entry["mode"], entry["switches"]) == (1, "CATCH_UP", 1)
    assert (entry["realtime"]["records"], entry["catch_up"]["records"]) == (0, 1)
    assert entry["catch_up"]["bytes"] > 0
    assert "in the store" in " ".join(capsys.readouterr().out.split())


def test_a_replay_shows_its_position_its_mode_and_both_paths_of_its_lag(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    client.sinks.create("orders")
    client.publish("orders", [Record(b"first")])
    endpoint = ["--endpoint", client.endpoints[0]]
    with client.consumer("orders", "billing", store="memory:shown") as consumer:
        assert consumer.take(20.0) is not None
        until(lambda: [one.position for one in client.sinks.stats("orders").replays] == [1])
        [caught_up] = client.sinks.stats("orders").replays
        client.realtime.set(False, sink="orders")
        client.publish("orders", [Record(b"second")])
        assert consumer.take(20.0) is not None
        until(lambda: client.sinks.stats("orders").replays[0].position == 2)
        [switched] = client.sinks.stats("orders").replays
        assert run(["lag", "orders", "--paths", *endpoint, "-o", "json"]) == ExitCode.OK
        _, entry = json.loads(capsys.readouterr().out)
        assert run(["lag", "orders", "--paths", *endpoint]) == ExitCode.OK
        table = " ".join(capsys.readouterr().out.split())
        [stream] = [one for found in client.connections() for one in found.streams if one.method == "Replay"]
        assert run(["connections", *endpoint]) == ExitCode.OK

    assert (caught_up.reader_id, caught_up.partition, caught_up.pending) == ("billing", 0, 0)
    assert (caught_up.mode, caught_up.mode_switches) == (ReaderMode.REALTIME, 0)
    assert (switched.mode, switched.mode_switches) == (ReaderMode.CATCH_UP, 1)
    assert (entry["reader"], entry["position"], entry["mode"], entry["switches"]) == ("billing", 2, "CATCH_UP", 1)
    assert "replay billing" in table
    assert (stream.client_id, stream.partition, stream.position, stream.lag_records) == ("billing", 0, 2, 0)
    assert (stream.mode, stream.mode_switches) == (ReaderMode.CATCH_UP, 1)
    assert "catch up" in " ".join(capsys.readouterr().out.split())
    assert client.sinks.stats("orders").replays == ()


def test_a_replay_whose_client_does_not_read_shows_what_it_is_behind(client: Client) -> None:
    client.sinks.create("orders")
    client.realtime.set(False, sink="orders")
    with client.consumer("orders", "billing", store="memory:behind", buffer_bytes=1 << 20) as consumer:
        for _ in range(40):
            client.publish("orders", [Record(b"x" * 500_000)])
        assert consumer.take(20.0) is not None
        [replay] = client.sinks.stats("orders").replays
        [stream] = [one for found in client.connections() for one in found.streams if one.method == "Replay"]

    assert 0 < replay.pending < 40
    assert replay.pending == 40 - replay.position
    assert replay.pending_bytes >= replay.pending * 500_000
    assert (replay.realtime_lag.records, replay.catch_up_lag.records) == (0, replay.pending)
    assert replay.catch_up_lag.bytes == replay.pending_bytes
    assert replay.pending_age_s == replay.catch_up_lag.age_s > 0
    assert 0 < stream.lag_records <= replay.pending


def test_a_name_of_a_reader_with_another_form_is_refused(client: Client) -> None:
    client.sinks.create("orders")

    with client.replay_pages("orders", partition=0, reader_id="no spaces") as pages, failure(Reason.INVALID_OPEN):
        next(pages)


def test_the_command_says_that_the_broker_is_off_where_a_sink_is_on(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    client.sinks.create("orders")
    endpoint = ["--endpoint", client.endpoints[0]]

    assert run(["realtime", "off", *endpoint]) == run(["realtime", "on", "orders", *endpoint]) == ExitCode.OK
    assert run(["realtime", "status", *endpoint]) == ExitCode.OK
    out = capsys.readouterr().out

    assert "realtime is off for orders" in out
    assert "it is off for the whole broker" in out
    assert "broker: off (chosen)" in out


RECORDS = 3_000
SWITCHES = 40


def switched_at_random(client: Client, seed: int, until: Callable[[], bool]) -> int:
    """Switch the broker and the sink until both readers are at the end; return the number of switches."""
    chance, done = random.Random(seed), 0
    while not until() or done < SWITCHES:
        client.realtime.set(chance.choice([True, True, False, None]), sink=chance.choice(["", "orders"]))
        if done % 5 == 4:
            client.sinks.update("orders", tail_bytes_max=chance.choice([0, 2_000, 20_000]))
        done += 1
    return done


@pytest.mark.parametrize("seed", [1, 2])
def test_readers_get_every_record_once_while_realtime_is_switched_at_random_under_load(
    tmp_path: Path, seed: int
) -> None:
    settings = load(listen="127.0.0.1:0", data_dir=tmp_path / "data", tail_bytes=50_000, disk_ballast_bytes=0)
    received: list[int] = []
    replayed: list[int] = []

    def publish() -> None:
        with client.publisher("orders", linger_ms=0) as publisher:
            for number in range(RECORDS):
                publisher.send(str(number).encode() * 10)
                if number % 50 == 0:
                    publisher.flush()

    def receive() -> None:
        with client.subscriber("orders", credit_records=100) as deliveries:
            while len(received) < RECORDS:
                delivery = deliveries.take(60.0)
                assert delivery is not None
                received.extend(record.offset for record in delivery)
                delivery.ack()

    def replay() -> None:
        for record in client.replay("orders", partition=0, follow=True):
            assert isinstance(record, ReplayedRecord), "nothing is dropped here"
            replayed.append(record.offset)
            if len(replayed) == RECORDS:
                return

    with BrokerServer.on_disk(settings) as server, Client(server.endpoint) as client:
        client.sinks.create("orders", retain_acked_time_s=3_600.0)
        threads = [threading.Thread(target=work, daemon=True) for work in (publish, receive, replay)]
        for thread in threads:
            thread.start()
        switched_at_random(client, seed, lambda: not any(thread.is_alive() for thread in threads))
        stats = client.sinks.stats("orders").subscriptions[0].partitions[0]
        info = client.info()

    assert received == replayed == list(range(RECORDS))
    assert stats.identity_ok
    assert stats.mode_switches > 0
    assert (info.realtime_failure, info.tail_bytes <= 50_000) == ("", True)
