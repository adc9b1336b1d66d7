"""The deliverer between a real broker and real targets."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from threading import Event, Thread

import pytest

from forebay.client import Client, Record, SubscriptionPartitionStats
from forebay.client.testing import TestBroker, broker
from forebay.deliver import BatchLimits, Deliverer, DelivererSettings, Target
from forebay.deliver.targets.file import FileTarget
from forebay.deliver.targets.http import HttpTarget
from forebay.deliver.targets.http_settings import HttpSettings
from tests.support.targets.scripted_server import Answer, Request, ScriptedServer, serving

WAIT_S = 30.0
SETTINGS = DelivererSettings(batch=BatchLimits(records_max=20))


@pytest.fixture
def running() -> Iterator[TestBroker]:
    """Return a broker of the test's own."""
    with broker() as found:
        yield found


@pytest.fixture
def client(running: TestBroker) -> Iterator[Client]:
    """Return a client of it."""
    with running.client() as opened:
        yield opened


@contextmanager
def delivering(client: Client, sink: str, target: Target, settings: DelivererSettings = SETTINGS) -> Iterator[None]:
    """Deliver a sink until the block ends."""
    deliverer = Deliverer(client, sink, target, settings=settings)
    thread = Thread(target=deliverer.run, name="deliverer")
    thread.start()
    try:
        yield
    finally:
        deliverer.stop()
        thread.join(WAIT_S)
        assert not thread.is_alive()


def impatient_sink(client: Client, *, partitions: int = 1, dlq: bool = True) -> None:
    """Create the sink ``orders`` with a short back-off."""
    client.sinks.create("orders", partitions=partitions, retry_backoff_min_s=0.01, retry_backoff_max_s=0.1, dlq=dlq)


def publish(client: Client, sink: str, count: int, *, partition: int = 0) -> list[bytes]:
    """Publish numbered values and return them."""
    values = [b"%d" % number for number in range(count)]
    with client.publisher(sink) as publisher:
        publisher.send_many(values, partition=partition)
        publisher.flush(WAIT_S)
    return values


def wait_for(
    client: Client, sink: str, reached: Callable[[SubscriptionPartitionStats], bool]
) -> tuple[SubscriptionPartitionStats, ...]:
    """Wait until every partition of the subscription has reached something and return the accounts."""
    for stats in client.sinks.watch(sink, interval_s=0.1):
        partitions = stats.subscriptions[0].partitions
        if all(map(reached, partitions)):
            assert stats.identity_ok
            return partitions
    raise AssertionError("the broker stopped telling")


def is_settled(stats: SubscriptionPartitionStats) -> bool:
    """Return whether nothing is pending."""
    return stats.pending == 0


def has_acked(count: int) -> Callable[[SubscriptionPartitionStats], bool]:
    """Return whether so many records are acked."""
    return lambda stats: stats.acked >= count


def received(server: ScriptedServer, status_of: Callable[[Request], int], partition: int = 0) -> list[bytes]:
    """Return the values that the server took, in the order in which they came."""
    return [
        value
        for request in server.requests
        if request.headers["Forebay-Partition"] == str(partition) and status_of(request) == 200
        for value in request.body.split()
    ]


def test_everything_arrives_in_order_at_an_http_target(client: Client) -> None:
    client.sinks.create("orders", partitions=2)
    values = publish(client, "orders", 95), publish(client, "orders", 30, partition=1)

    with serving() as server, delivering(client, "orders", HttpTarget(HttpSettings(url=server.url))):
        wait_for(client, "orders", is_settled)

    for partition in (0, 1):
        assert received(server, lambda _: 200, partition) == values[partition]


def test_records_that_are_published_one_by_one_are_one_request_of_a_target_that_waits_for_them(client: Client) -> None:
    client.sinks.create("orders")
    settings = DelivererSettings(batch=BatchLimits(records_max=30, wait_s=600.0))

    with serving() as server, delivering(client, "orders", HttpTarget(HttpSettings(url=server.url)), settings):
        for number in range(30):
            client.publish("orders", [Record(b"%d" % number)])
        wait_for(client, "orders", is_settled)

    assert [request.body.split() for request in server.requests] == [[b"%d" % number for number in range(30)]]


def test_a_target_that_is_unreachable_at_the_start_gets_everything_once_it_is_there(client: Client) -> None:
    impatient_sink(client)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    target = HttpTarget(HttpSettings(url=f"http://127.0.0.1:{port}/records"))

    with delivering(client, "orders", target):
        values = publish(client, "orders", 50)
        (stats,) = wait_for(client, "orders", lambda one: one.redelivered > 0)
        with serving(port=port) as server:
            (stats,) = wait_for(client, "orders", is_settled)

    assert received(server, lambda _: 200) == values
    assert (stats.acked, stats.dropped, stats.dead_lettered) == (50, 0, 0)


def test_an_unsteady_target_gets_every_record_once_and_in_order(client: Client) -> None:
    impatient_sink(client, partitions=3)
    random = Random(5)
    statuses: dict[int, int] = {}

    def script(request: Request) -> Answer:
        status = statuses[id(request)] = random.choice([200, 200, 503, 429, 500, 408])
        return Answer(status, {"Retry-After": "0"} if status == 429 else {})

    with serving(script) as server, delivering(client, "orders", HttpTarget(HttpSettings(url=server.url))):
        values = [publish(client, "orders", 300, partition=partition) for partition in range(3)]
        wait_for(client, "orders", is_settled)

    for partition in range(3):
        assert received(server, lambda request: statuses[id(request)], partition) == values[partition]


def test_a_retry_after_is_waited_for(client: Client) -> None:
    impatient_sink(client)

    with (
        serving(lambda _: Answer(503, {"Retry-After": "3600"})) as server,
        delivering(client, "orders", HttpTarget(HttpSettings(url=server.url))),
    ):
        publish(client, "orders", 1)
        (stats,) = wait_for(client, "orders", lambda one: one.retry_at is not None)
        publish(client, "orders", 5)

    assert len(server.requests) == 1
    assert stats.reason.startswith("HTTP 503")
    assert stats.pending == 1


def test_a_slow_target_expires_nothing_as_long_as_it_answers_within_the_deadline(client: Client) -> None:
    client.sinks.create("orders", ack_deadline_s=2.0)
    never = Event()

    def script(_: Request) -> Answer:
        never.wait(0.4)
        return Answer()

    with serving(script) as server, delivering(client, "orders", HttpTarget(HttpSettings(url=server.url))):
        values = publish(client, "orders", 200)
        (stats,) = wait_for(client, "orders", is_settled)

    assert received(server, lambda _: 200) == values
    assert stats.redelivered == 0


def slow_answer(_: Request) -> Answer:
    Event().wait(0.3)
    return Answer()


def test_a_partition_that_waits_for_a_thread_longer_than_the_deadline_expires_nothing(client: Client) -> None:
    client.sinks.create("orders", partitions=2, ack_deadline_s=1.0)
    one_thread = replace(SETTINGS, concurrency=1)

    values = [publish(client, "orders", 120, partition=partition) for partition in range(2)]
    with (
        serving(slow_answer) as server,
        delivering(client, "orders", HttpTarget(HttpSettings(url=server.url)), one_thread),
    ):
        stats = wait_for(client, "orders", is_settled)

    assert [received(server, lambda _: 200, partition) for partition in range(2)] == values
    assert [one.redelivered for one in stats] == [0, 0]


def test_pages_that_wait_for_their_turn_longer_than_the_deadline_expire_nothing_in_relaxed_order(
    client: Client,
) -> None:
    client.sinks.create("orders", ordering="RELAXED", ack_deadline_s=1.0)

    values = [b"%d" % number + b"x" * (1 << 20) for number in range(10)]
    for value in values:
        client.publish("orders", [Record(value)])
    with serving(slow_answer) as server, delivering(client, "orders", HttpTarget(HttpSettings(url=server.url))):
        (stats,) = wait_for(client, "orders", is_settled)

    assert [value.strip(b'"') for value in received(server, lambda _: 200)] == values
    assert stats.redelivered == 0


def test_a_slow_target_that_rejects_is_halved_to_the_end(client: Client) -> None:
    client.sinks.create("orders", ack_deadline_s=1.0, dlq=False)
    never = Event()

    def script(_: Request) -> Answer:
        never.wait(0.4)
        return Answer(400)

    with serving(script) as server, delivering(client, "orders", HttpTarget(HttpSettings(url=server.url))):
        publish(client, "orders", 20)
        (stats,) = wait_for(client, "orders", lambda one: one.state == "PAUSED")

    assert len(server.requests) == 5
    assert "offset 0: HTTP 400" in stats.reason


def test_a_rejected_record_becomes_a_dead_letter_and_arrives_when_the_cause_is_repaired(client: Client) -> None:
    impatient_sink(client)

    def rule(request: Request) -> int:
        return 422 if b"\n37\n" in b"\n" + request.body else 200

    with (
        serving(lambda request: Answer(rule(request))) as server,
        delivering(client, "orders", HttpTarget(HttpSettings(url=server.url))),
    ):
        values = publish(client, "orders", 60)
        wait_for(client, "orders", is_settled)
        taken = received(server, rule)
        [letter] = client.dead_letters.list("orders")
        server.script = lambda _: Answer()
        redriven = client.dead_letters.redrive("orders")
        (stats,) = wait_for(client, "orders", has_acked(60))

    assert sorted(taken) == sorted(set(values) - {values[37]})
    assert (letter.record.value, letter.reason, letter.origin_offset) == (values[37], "REJECTED", 37)
    assert letter.error.startswith("HTTP 422 ")
    assert redriven == 1
    assert (stats.acked, stats.dead_lettered, stats.pending) == (60, 1, 0)
    assert server.requests[-1].body.split() == [values[37]]
    assert list(client.dead_letters.list("orders")) == []


def test_without_dead_letters_a_rejected_record_stops_the_sink_and_continues_after_the_cause_is_repaired(
    client: Client,
) -> None:
    impatient_sink(client, dlq=False)

    def rule(request: Request) -> int:
        return 422 if b"\n37\n" in b"\n" + request.body else 200

    with (
        serving(lambda request: Answer(rule(request))) as server,
        delivering(client, "orders", HttpTarget(HttpSettings(url=server.url))),
    ):
        values = publish(client, "orders", 60)
        (stopped,) = wait_for(client, "orders", lambda one: one.state == "PAUSED")
        taken = received(server, rule)
        server.script = lambda _: Answer()
        failed = len(server.requests)
        client.sinks.resume("orders")
        (stats,) = wait_for(client, "orders", is_settled)

    assert taken == values[:37]
    assert stopped.reason.startswith("REJECTED_BY_TARGET: partition 0, offset 37: HTTP 422 ")
    assert stopped.reason.endswith(f" from {server.url}")
    assert (stopped.watermark, stopped.pending) == (37, 23)
    assert b"".join(request.body for request in server.requests[failed:]).split() == values[37:]
    assert stats.acked == 60


def test_a_deliverer_killed_at_any_moment_leaves_a_whole_file_with_each_record_once(
    running: TestBroker, client: Client, tmp_path: Path
) -> None:
    program = textwrap.dedent("""
        import sys
        from pathlib import Path
        from forebay.client import Client
        from forebay.deliver import BatchLimits, Deliverer, DelivererSettings
        from forebay.deliver.targets import registry as targets
        settings = DelivererSettings(batch=BatchLimits(records_max=50))
        with Client(sys.argv[1]) as client:
            Deliverer(client, "orders", targets.create("file", {"path": sys.argv[2]}), settings=settings).run()
    """)
    impatient_sink(client)
    values = publish(client, "orders", 20_000)
    path = tmp_path / "out.jsonl"
    random = Random(3)
    reached = 0

    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", program, running.endpoint, str(path)])
        (stats,) = wait_for(client, "orders", has_acked(reached + random.randint(500, 4000)))
        reached = stats.acked
        process.send_signal(signal.SIGKILL)
        process.wait(WAIT_S)
    with delivering(client, "orders", FileTarget(path)):
        wait_for(client, "orders", is_settled)

    lines = (tmp_path / "out-0.jsonl").read_bytes().splitlines()
    assert [b"%d" % json.loads(line)["value"] for line in lines] == values
