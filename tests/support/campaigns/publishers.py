"""Publishers of a campaign: they continue through every kill, and report every receipt to the oracle.

Each is a thread with a client of its own. A publisher lives for a while, then closes as it should, or is abandoned
with pages on their way. Its next life has either the same writer id, and continues its numbers, which tests that the
old one is fenced; or a new one, and is a new source.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

from forebay.client import (
    BrokerUnavailable,
    Client,
    ClientSettings,
    ForebayError,
    Publisher,
    Receipt,
    Record,
    RetryPolicy,
)
from tests.support.oracles.oracle import Oracle
from tests.support.oracles.records import identity, value_of

SETTINGS: Final = ClientSettings(
    call_timeout_s=5.0,
    retry=RetryPolicy(tries_max=1_000, delay_min_s=0.01, delay_max_s=0.05, budget_s=60.0),
    reconnect=RetryPolicy(tries_max=1_000_000, delay_min_s=0.01, delay_max_s=0.05, budget_s=86_400.0),
)
"""Back within a moment: what is tested is what happens around a kill, not how long a client may wait after one."""
PATIENT: Final = replace(SETTINGS, call_timeout_s=60.0)
"""For requests to a broker that is not killed meanwhile: a busy machine is no fault of the broker."""

FLUSH_S: Final = 300.0

Connect = Callable[[], AbstractContextManager[Client]]
"""Gives a client for a life; many lives may share one."""


@dataclass(frozen=True, slots=True)
class Habit:
    """Behaviour of a publisher."""

    name: str
    sizes: tuple[int, int]
    """Bytes of a body, from and to."""

    burst: tuple[int, int]
    """Records that are sent at once, from and to."""

    pause_s: tuple[float, float]
    """Between two bursts."""

    how: str
    """`keyed`, `spread`, `many`, `together` (as much as makes a file of its own) or `batch` (a call of its own)."""

    delivery_timeout_s: float = 600.0
    """With a short one, pages expire while the broker is unreachable."""


HABITS: Final = (
    Habit("keyed", (0, 300), (1, 40), (0.0, 0.02), "keyed"),
    Habit("hasty", (10, 200), (1, 20), (0.0, 0.02), "spread", delivery_timeout_s=0.3),
    Habit("many", (50, 1_000), (50, 600), (0.02, 0.1), "many"),
    Habit("bulk", (30_000, 60_000), (90, 190), (0.3, 1.5), "together"),
    Habit("batch", (10, 500), (1, 30), (0.02, 0.1), "batch"),
)


class PublisherThread(threading.Thread):
    """One publisher, life after life, until ``stop``."""

    def __init__(
        self,
        habit: Habit,
        endpoint: str,
        oracle: Oracle,
        *,
        partitions: int,
        sources: count[int],
        chance: random.Random,
        stop: threading.Event,
        pace: Callable[[], float] = lambda: 1.0,
        connect: Connect | None = None,
    ) -> None:
        """``pace`` multiplies every pause: a caller may slow all publishers down."""
        super().__init__(name=f"publisher-{habit.name}-{oracle.sink}", daemon=True)
        self._pace = pace
        self._connect: Connect = connect or (lambda: Client(endpoint, settings=SETTINGS))
        self._habit = habit
        self._oracle = oracle
        self._partitions = partitions
        self._sources = sources
        self._chance = chance
        self._stop_event = stop
        self._source = next(sources)
        self._number = 0
        self.sent = 0
        """Records handed to the client."""
        self.confirmed = 0
        """Records with a receipt."""
        self.given_up = 0
        """Records whose fate their publisher does not know."""

    def run(self) -> None:
        """Publish until stopped, then see to it that what was sent is durable."""
        try:
            with self._connect() as client:
                if self._habit.how == "batch":
                    self._call_batches(client)
                else:
                    while not self._stop_event.is_set():
                        self._live(client)
        except Exception as error:  # noqa: BLE001 - whatever ends a witness spoils the evidence
            self._oracle.fault("faults", f"{self.name} ended with {error!r}")

    def _live(self, client: Client) -> None:
        chance = self._chance
        try:
            publisher = client.publisher(
                self._oracle.sink,
                writer_id=f"{self._habit.name}-{self._source}",
                linger_ms=chance.choice([0.0, 2.0, 5.0]),
                buffer_bytes_max=24 << 20 if self._habit.how == "together" else 256 << 10,
                delivery_timeout_s=self._habit.delivery_timeout_s,
                window_pages=chance.choice([1, 8, 96]),
            )
        except BrokerUnavailable:
            return  # a hasty one does not wait for long
        for _ in range(chance.randint(5, 200)):
            if self._stop_event.is_set():
                break
            self._burst(publisher)
            self._stop_event.wait(chance.uniform(*self._habit.pause_s) * self._pace())
        if chance.random() < 0.5 or self._stop_event.is_set():
            self._part(publisher)
        else:
            publisher.abandon()
        if chance.random() < 0.5:
            self._source, self._number = next(self._sources), 0

    def _part(self, publisher: Publisher) -> None:
        """Close; pages that a hasty publisher has given up are no failure."""
        try:
            publisher.close(FLUSH_S)
        except ForebayError as error:
            if self._habit.delivery_timeout_s > FLUSH_S:
                self._oracle.fault("faults", f"{self.name} could not close: {error!r}")

    def _records(self) -> list[int]:
        numbers = range(self._number + 1, self._number + 1 + self._chance.randint(*self._habit.burst))
        self._number = numbers[-1]
        self.sent += len(numbers)
        return [identity(self._source, number) for number in numbers]

    def _value(self, record: int) -> bytes:
        return value_of(record, self._chance.randint(*self._habit.sizes))

    def _burst(self, publisher: Publisher) -> None:
        records = self._records()
        values = [self._value(record) for record in records]
        if self._habit.how in {"many", "together"}:
            partition = self._chance.randrange(self._partitions)
            future = publisher.send_many(values, partition=partition)
            future.add_done_callback(self._when_many(records))
            return
        key = b"key-%d" % self._chance.randrange(50) if self._habit.how == "keyed" else None
        for record, value in zip(records, values, strict=True):
            publisher.send(value, key=key).add_done_callback(self._when_one(record))

    def _when_one(self, record: int) -> Callable[[Future[Receipt]], None]:
        def done(future: Future[Receipt]) -> None:
            if future.exception() is None:
                self._promised([record], [future.result()])
            else:
                self.given_up += 1

        return done

    def _when_many(self, records: list[int]) -> Callable[[Future[list[Receipt]]], None]:
        def done(future: Future[list[Receipt]]) -> None:
            if future.exception() is None:
                self._promised(records, future.result())
            else:
                self.given_up += len(records)

        return done

    def _promised(self, records: Sequence[int], receipts: Sequence[Receipt]) -> None:
        self.confirmed += len(records)
        at = 0
        for receipt in receipts:
            if receipt.first_offset is None or receipt.last_offset is None:
                self._oracle.receipt(receipt.partition, None, records[at:])
                return
            size = receipt.last_offset - receipt.first_offset + 1
            some = records[at : at + size]
            where, level = receipt.first_offset, receipt.durability
            self._oracle.receipt(receipt.partition, where, some, level, duplicate=receipt.duplicate)
            at += size
        if at != len(records):
            self._oracle.fault("faults", f"{len(records)} records were sent, and the receipts are for {at}")

    def _call_batches(self, client: Client) -> None:
        """Publish by single calls. One whose answer is lost is not made again, so nothing may stand twice."""
        while not self._stop_event.is_set():
            records = self._records()
            batch = [Record(self._value(record)) for record in records]
            try:
                receipts = client.publish(self._oracle.sink, batch, partition=self._chance.randrange(self._partitions))
            except ForebayError:
                self.given_up += len(records)
            else:
                self._promised(records, receipts)
            self._stop_event.wait(self._chance.uniform(*self._habit.pause_s) * self._pace())
