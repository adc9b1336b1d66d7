"""A broker killed at every step of its store, while records are dead-lettered and while redriven."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import count
from pathlib import Path
from typing import Literal

import pytest

from forebay.client import Client, Record
from tests.support.campaigns.publishers import SETTINGS
from tests.support.processes.broker import BrokerEnded, BrokerProcess
from tests.support.processes.stopping import StoppingLauncher
from tests.support.processes.stops import Action, Stop

SINK = "orders"
RECORDS = 12
REJECTED = [number for number in range(RECORDS) if number % 3 == 1]
ENDS_S = 30.0


def walk(endpoint: str) -> dict[int, bytes]:
    """Publish, reject some, ack the rest, redrive, ack those too; returns every record that was ever delivered."""
    seen: dict[int, bytes] = {}
    with Client(endpoint, settings=SETTINGS) as client:
        client.sinks.create(SINK, exist_ok=True, buffer_page_size=1, retry_backoff_min_s=0.01, retry_backoff_max_s=0.05)
        with client.publisher(SINK, writer_id="writer", linger_ms=0) as publisher:
            for first in range(0, RECORDS, 4):
                publisher.send_many([b"%d" % number for number in range(first, first + 4)]).result(ENDS_S)
        consume(client, seen, rejects=True)
        assert len(list(client.dead_letters.list(SINK))) == len(REJECTED)
        client.dead_letters.redrive(SINK)
        consume(client, seen, rejects=False)
    return seen


def consume(client: Client, seen: dict[int, bytes], *, rejects: bool) -> None:
    """Take, and ack or reject record by record, until nothing is pending."""
    until = time.monotonic() + ENDS_S
    with client.subscriber(SINK) as subscriber:
        while True:
            delivery = subscriber.take(0.05)
            if delivery is None:
                if client.sinks.stats(SINK).pending() == 0:
                    return
                assert time.monotonic() < until, f"not settled within {ENDS_S:g} s"
                continue
            for record in delivery:
                assert seen.setdefault(record.offset, record.value) == record.value
                if rejects and int(record.value) in REJECTED:
                    delivery.dead_letter("never", offset=record.offset, wait=True)
                else:
                    delivery.ack(record.offset, wait=True)


class Survivor:
    """One walk through a broker that is killed once and started again."""

    def __init__(self, launcher: StoppingLauncher, directory: Path, listen: str) -> None:
        self._launcher = launcher
        self._directory = directory
        self._listen = listen
        self.seen: dict[int, bytes] = {}

    def goes_through(self, stop: Stop, workers: ThreadPoolExecutor) -> bool:
        """Walk; returns whether the broker was killed on the way."""
        broker = self._launcher.start_to(stop, self._directory, self._listen)
        killed = False
        try:
            broker.ready()
        except BrokerEnded:
            killed = True
            broker = self._again()
        walking = workers.submit(walk, self._listen)
        while not wait([walking], timeout=0.01).done:
            if broker.has_ended():
                assert (broker.wait(), killed) == (-9, False)
                killed = True
                broker = self._again()
        self.seen = walking.result()
        code = broker.terminate()
        assert code == 0 or (code == -9 and not killed)
        return killed or code == -9

    def _again(self) -> BrokerProcess:
        broker = self._launcher.start(self._directory, self._listen)
        broker.ready()
        return broker

    def check(self) -> None:
        """Each rejected record was dead-lettered and redriven once; nothing else moved, and all is counted."""
        with self._again() as broker:
            with Client(self._listen, settings=SETTINGS) as client:
                origin, dead = client.sinks.stats(SINK), client.sinks.stats(f"{SINK}.dlq")
            assert broker.terminate() == 0
        [account], [kept] = origin.subscriptions[0].partitions, dead.subscriptions[0].partitions
        assert origin.identity_ok
        assert dead.identity_ok
        assert origin.partitions[0].next_offset == RECORDS + len(REJECTED)
        assert dead.partitions[0].next_offset == account.dead_lettered == kept.acked == len(REJECTED)
        assert (account.acked, account.pending, kept.pending) == (RECORDS, 0, 0)
        first = [self.seen[offset] for offset in range(RECORDS)]
        assert first == [b"%d" % number for number in range(RECORDS)]
        again = [self.seen[offset] for offset in range(RECORDS, RECORDS + len(REJECTED))]
        assert again == [b"%d" % number for number in REJECTED]


@pytest.mark.slow
@pytest.mark.parametrize(("action", "when"), [("write", "before"), ("write", "after"), ("sync", "after")])
def test_a_kill_at_any_step_neither_loses_nor_doubles_a_dead_letter_on_its_way_there_and_back(
    action: Action, when: Literal["before", "after"], launcher: StoppingLauncher, listen: str, in_memory: Path
) -> None:
    with ThreadPoolExecutor(1) as workers:
        for number in count(1):
            survivor = Survivor(launcher, in_memory / f"store-{number}", listen)

            killed = survivor.goes_through(Stop(action, when, number), workers)

            survivor.check()
            if not killed:
                break
    assert number > RECORDS


def test_a_redrive_that_is_asked_for_again_and_again_around_a_kill_happens_once(
    launcher: StoppingLauncher, listen: str, in_memory: Path
) -> None:
    with Client(listen, settings=SETTINGS) as client:
        with launcher.start(in_memory / "store", listen) as broker:
            broker.ready()
            client.sinks.create(SINK)
            client.publish(SINK, [Record(b"%d" % number) for number in range(50)])
            with client.subscriber(SINK) as subscriber:
                next(subscriber).dead_letter("never", wait=True)
        with launcher.start_to(Stop("sync", "before", kind="page"), in_memory / "store", listen) as broker:
            broker.ready()
            with ThreadPoolExecutor(1) as workers:
                redriving = workers.submit(client.dead_letters.redrive, SINK)
                assert broker.wait() == -9
                with launcher.start(in_memory / "store", listen) as again:
                    again.ready()
                    redriving.result(ENDS_S)
                    client.dead_letters.redrive(SINK)
                    stats = client.sinks.stats(SINK)
                    values = [record.value for record in client.replay(SINK, partition=0) if hasattr(record, "value")]

    assert stats.partitions[0].next_offset == 100
    assert sorted(values[-50:]) == sorted(b"%d" % number for number in range(50))
    assert stats.identity_ok
