"""Positions of consumers over kills and restarts of a real broker process: nothing is skipped, nothing comes twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from forebay.client import Client, Record
from tests.support.campaigns.publishers import SETTINGS
from tests.support.processes.broker import BrokerProcess
from tests.support.processes.stopping import StoppingLauncher

SINK = "orders"
KILLS = 10
AUDIT = "audit"


class Site:
    """A broker process on one directory, and a client of it."""

    def __init__(self, launcher: StoppingLauncher, directory: Path, listen: str) -> None:
        self._launcher = launcher
        self._directory = directory
        self._listen = listen
        self.process: BrokerProcess = self._started()
        self.client = Client(listen, settings=SETTINGS)

    def _started(self) -> BrokerProcess:
        process = self._launcher.start(self._directory, self._listen)
        process.ready()
        return process

    def kill(self) -> None:
        """End the broker as kill -9 does, and start it again."""
        self.process.kill()
        self._again()

    def restart(self) -> None:
        """Ask the broker to stop, and start it again."""
        assert self.process.terminate() == 0
        self._again()

    def _again(self) -> None:
        self.process = self._started()
        self.client.info()  # tried again until the client is connected; a pull is tried once

    def fill(self, records: int, *, first: int = 0, page: int = 1) -> None:
        """Publish numbered records, so many in a page."""
        for number in range(first, first + records, page):
            self.client.publish(SINK, [Record(b"%d" % each) for each in range(number, number + page)])

    def take(self, records: int, subscription: str = AUDIT) -> list[int]:
        """Pull records without acking them; their offsets."""
        found = self.client.pull(SINK, subscription=subscription, max_records=records)
        return [record.offset for record in found]

    def take_and_ack(self, records: int, subscription: str = AUDIT) -> list[int]:
        """Pull records and ack them; their offsets."""
        found = self.client.pull(SINK, subscription=subscription, max_records=records)
        if found:
            results = self.client.ack(SINK, found, subscription=subscription)
            assert {result.outcome.value for result in results} == {"OK"}
        return [record.offset for record in found]

    def balances(self) -> bool:
        """Return True if every account balances."""
        return self.client.sinks.stats(SINK).identity_ok


@pytest.fixture
def site(launcher: StoppingLauncher, listen: str, in_memory: Path) -> Iterator[Site]:
    """A sink with the subscription ``audit`` on a broker that can be killed."""
    with closing(Site(launcher, in_memory / "store", listen)) as one:
        one.client.sinks.create(SINK, buffer_page_size=5)
        one.client.subscriptions.create(SINK, AUDIT)
        yield one


@contextmanager
def closing(site: Site) -> Iterator[Site]:
    """The site; its broker is ended in the end."""
    with site.client:
        try:
            yield site
        finally:
            site.process.kill()


@pytest.mark.slow
@pytest.mark.parametrize("way", ["restart", "kill"])
def test_three_restarts_without_an_ack_give_three_full_reads(site: Site, way: str) -> None:
    """Read one by one, never ack: three restarts give three full reads."""
    site.fill(10)
    reads = []
    for _ in range(3):
        reads.append([offset for _ in range(10) for offset in site.take(1)])
        getattr(site, way)()

    assert reads == [list(range(10))] * 3
    assert site.balances()


@pytest.mark.slow
@pytest.mark.parametrize("page", [1, 5], ids=["pages of one record", "in the middle of a page"])
def test_a_kill_after_each_ack_leaves_no_gap_and_brings_no_repeat(site: Site, page: int) -> None:
    """Ack after each record, kill after each, ten times: no gap, no repeat. Also in the middle of a page."""
    site.fill(KILLS, page=page)
    seen = []
    for _ in range(KILLS):
        seen += site.take_and_ack(1)
        site.kill()

    assert seen == list(range(KILLS))
    assert site.take(1) == []
    assert site.take(100, "default") == list(range(KILLS))
    assert site.balances()


def test_a_partition_of_a_subscription_has_one_owner_and_goes_to_the_next_when_it_leaves(site: Site) -> None:
    """Two consumers on a subscription with one partition: one owns it; it is handed over when the owner goes."""
    site.fill(2)
    site.client.sinks.update(SINK, ack_deadline_s=2.0)  # the lease of a consumer that pulls
    first = site.client.subscriber(SINK, subscription=AUDIT, consumer_id="first")
    seen_first = next(iter(first))
    with site.client.subscriber(SINK, subscription=AUDIT, consumer_id="second") as second:
        beside = site.client.pull(SINK, subscription=AUDIT, consumer_id="third")
        first.close()
        seen_second = next(iter(second))
        seen_second.ack(wait=True)

    assert (seen_first.first_offset, beside, seen_second.first_offset) == (0, [], 0)


@pytest.mark.slow
def test_an_unacked_record_is_redelivered_after_a_restart_and_an_acked_record_is_not(site: Site) -> None:
    """On disk: append 2, take 1 unacked, stop, start: both, in order; ack; start: none."""
    site.fill(2)
    taken = site.take(1)
    site.restart()
    again = site.take_and_ack(2)
    site.restart()

    assert (taken, again, site.take(2)) == ([0], [0, 1], [])


@pytest.mark.slow
def test_three_pages_without_an_ack_are_redelivered_and_a_hundred_acks_settle_them_once(site: Site) -> None:
    """Three pages, take all, no ack, restart: the same three; ack 100 times; restart: none."""
    site.fill(15, page=5)
    before = site.take(15)
    site.restart()
    found = site.client.pull(SINK, subscription=AUDIT, max_records=15)
    for _ in range(100):
        site.client.ack(SINK, found, subscription=AUDIT)
    acked = site.client.sinks.stats(SINK).subscriptions[0].partitions[0].acked
    site.restart()

    assert before == [record.offset for record in found] == list(range(15))
    assert (acked, site.take(15)) == (15, [])


@pytest.mark.slow
def test_after_one_of_three_was_acked_a_restart_continues_with_the_second(site: Site) -> None:
    """Three records, take and ack one, restart: next is the second."""
    site.fill(3)
    site.take_and_ack(1)
    site.restart()

    assert site.take(1) == [1]


@pytest.mark.slow
def test_records_stored_before_a_kill_are_delivered_before_newer_ones(site: Site) -> None:
    """Ten records on disk, kill: after the start all ten are delivered before a new one."""
    site.fill(10)
    site.kill()
    site.fill(1, first=10)

    assert site.take(100) == list(range(11))
    assert site.take(100, "default") == list(range(11))


@pytest.mark.slow
def test_records_in_flight_to_a_target_that_died_are_delivered_to_its_successor(site: Site) -> None:
    """Kill the target with n in flight, start it: all arrive, those n perhaps twice."""
    site.fill(10)
    dying = site.client.subscriber(SINK, subscription=AUDIT, consumer_id="target")
    deliveries = iter(dying)
    next(deliveries).ack(0, 2, wait=True)
    dying.close()  # as its connection does when it dies: nothing is answered any more

    arrived: list[int] = []
    with site.client.subscriber(SINK, subscription=AUDIT, consumer_id="target") as again:
        for delivery in again:
            arrived += [record.offset for record in delivery]
            delivery.ack(wait=True)
            if delivery.last_offset == 9:
                break

    assert arrived == list(range(3, 10))
    assert site.balances()


@pytest.mark.slow
def test_subscriptions_seeks_and_partitions_that_were_answered_survive_a_kill(site: Site) -> None:
    site.fill(6)
    site.client.subscriptions.create(SINK, "late", start="latest")
    site.client.subscriptions.create(SINK, "gone")
    site.client.subscriptions.delete(SINK, "gone")
    site.take_and_ack(2)
    site.client.subscriptions.seek(SINK, AUDIT, to=4)
    site.client.sinks.update(SINK, partitions=2)
    site.kill()

    names = [one.name for one in site.client.subscriptions.list(SINK)]
    stats = site.client.sinks.stats(SINK)
    audit = stats.subscriptions[0].partitions[0]
    assert (names, stats.identity_ok, len(stats.partitions)) == (["audit", "default", "late"], True, 2)
    assert (audit.start_offset, audit.lifetime.acked, audit.lifetime.skipped) == (4, 2, 4)
    assert site.take(100) == [4, 5]
    assert site.take(100, "late") == []


@pytest.mark.slow
def test_records_settled_below_an_offset_stay_settled_after_each_kill(site: Site) -> None:
    """Offsets in the middle of pages, and each asked for again after the kill, as after a lost answer."""
    site.fill(KILLS * 3, page=5)

    for kill in range(1, KILLS + 1):
        [settled] = site.client.subscriptions.settle(SINK, AUDIT, offsets={0: kill * 3})
        site.kill()
        [again] = site.client.subscriptions.settle(SINK, AUDIT, offsets={0: kill * 3})
        assert (settled.acked, settled.watermark) == (3, kill * 3)
        assert (again.acked, again.watermark) == (0, kill * 3)
        assert site.balances()

    assert site.take(100) == []
