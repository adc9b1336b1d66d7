"""Consumers of a campaign: they ack some, nack some, sit on some too long, and die sometimes.

Each is a thread with a client of its own. What it is given it reports to the oracle first, then it answers.
"""

from __future__ import annotations

import random
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol
from weakref import WeakKeyDictionary

from forebay.client import Client, DeadlineExceeded, Delivery, Ordering
from tests.support.campaigns.publishers import SETTINGS, Connect
from tests.support.oracles.oracle import DEFAULT, Oracle
from tests.support.oracles.records import identity_of

TAKE_S: Final = 0.1


class Outage(Protocol):
    """Return the current fault of the target. Called on the consumer's thread."""

    def refuse(self, delivery: Delivery) -> bool | None:
        """Return ``None`` if the target works; else handle its fault and return whether to continue."""


@dataclass(frozen=True, slots=True)
class Temper:
    """Behaviour of a consumer; probabilities are per delivery."""

    credit_records: int = 20_000
    nack: float = 0.05
    hold: float = 0.01
    """Does not answer before the deadline."""
    die: float = 0.02
    """Goes away without an answer."""
    pause_s: float = 0.0
    """Longest pause after a delivery: a slow one lets the buffer fill."""
    take_s: float = TAKE_S
    """Time limit of a wait for a delivery, after which it checks whether to stop."""


class ConsumerThread(threading.Thread):
    """One consumer, life after life, until ``stop``; ``calm`` makes it ack everything at once."""

    def __init__(
        self,
        name: str,
        endpoint: str,
        oracle: Oracle,
        temper: Temper,
        *,
        hold_s: float,
        chance: random.Random,
        stop: threading.Event,
        calm: threading.Event,
        subscription: str = DEFAULT,
        outage: Outage | None = None,
        connect: Connect | None = None,
    ) -> None:
        super().__init__(name=f"consumer-{name}-{oracle.sink}-{subscription}", daemon=True)
        self._subscription = subscription
        self._outage = outage
        self._connect: Connect = connect or (lambda: Client(endpoint, settings=SETTINGS))
        self._oracle = oracle
        self._temper = temper
        self._hold_s = hold_s
        self._chance = chance
        self._stop_event = stop
        self._calm = calm
        self._late: list[Delivery] = []
        """Deliveries that are acked after the next one."""
        self._owner_epochs: WeakKeyDictionary[Delivery, int] = WeakKeyDictionary()
        """Owner epoch under which each delivery was received."""

    def run(self) -> None:
        """Consume until stopped."""
        try:
            while not self._stop_event.is_set():
                # Without results in time the effect is unknown, and this life ends: unsettled records are redelivered.
                with self._connect() as client, suppress(DeadlineExceeded):
                    self._live(client)
        except Exception as error:  # noqa: BLE001 - whatever ends a witness spoils the evidence
            self._oracle.fault("faults", f"{self.name} ended with {error!r}")

    def _live(self, client: Client) -> None:
        self._late.clear()
        credit = self._temper.credit_records
        with client.subscriber(self._oracle.sink, subscription=self._subscription, credit_records=credit) as subscriber:
            while not self._stop_event.is_set():
                delivery = subscriber.take(self._temper.take_s)
                if delivery is None:
                    self._settle_late()
                elif delivery.gap is not None:
                    self._oracle.gap(delivery.gap, self._subscription)
                elif not self._handle(delivery):
                    return

    def _handle(self, delivery: Delivery) -> bool:
        """Report and answer one delivery; ``False`` is the end of this life."""
        records = list(delivery)
        given = [(record.offset, identity_of(record.value)) for record in records]
        broken = [offset for offset, record in given if record is None]
        if broken:
            self._oracle.fault("lost", f"partition {delivery.partition}: {broken[:5]} hold what nobody sent")
        known = [(offset, record) for offset, record in given if record is not None]
        if not known:
            return True  # all of it was void before it was examined
        level = delivery.durability
        self._owner_epochs[delivery] = records[0].owner_epoch
        self._oracle.delivered(delivery.partition, records[0].owner_epoch, known, self._subscription, level)
        if self._calm.is_set():
            self._settle_late()
            self._ack(delivery, wait=True)
            return True
        refused = None if self._outage is None else self._outage.refuse(delivery)
        if refused is not None:
            return refused
        chance, temper = self._chance.random(), self._temper
        for likely, answer in (
            (temper.die, self._leave),
            (temper.hold, self._hold),
            (temper.nack, self._give_back),
            (0.10, self._ack_in_parts),
            (0.10, self._ack_later),
            (0.05, self._ack_until),
            (0.30, self._ack_unseen),
        ):
            if chance < likely:
                goes_on = answer(delivery)
                break
            chance -= likely
        else:
            goes_on = self._ack_seen(delivery)
        if goes_on and temper.pause_s:
            self._stop_event.wait(self._chance.uniform(0.0, temper.pause_s))
        return goes_on

    # -- answers

    def _ack(self, delivery: Delivery, first: int | None = None, last: int | None = None, *, wait: bool) -> None:
        self._acking(delivery, first, last)
        results = delivery.ack(first, last, wait=wait)
        if wait:
            self._oracle.acked(self._owner_epochs[delivery], results, self._subscription)

    def _acking(self, delivery: Delivery, first: int | None, last: int | None) -> None:
        """Report what is about to be acked; what was void before it was read is not sent by the client."""
        low = delivery.first_offset if first is None else first
        high = delivery.last_offset if last is None else last
        ranges = [(max(low, start), min(high, end)) for start, end in delivery.ranges]
        acking = [(start, end) for start, end in ranges if start <= end]
        self._oracle.acking(delivery.partition, acking, self._subscription)

    def _ack_seen(self, delivery: Delivery) -> bool:
        self._ack(delivery, wait=True)
        self._settle_late()
        return True

    def _ack_unseen(self, delivery: Delivery) -> bool:
        self._ack(delivery, wait=False)
        self._settle_late()
        return True

    def _ack_in_parts(self, delivery: Delivery) -> bool:
        """Ack every other stretch, the later ones first."""
        step = max(1, (delivery.last_offset - delivery.first_offset) // 8)
        stretches = list(range(delivery.first_offset, delivery.last_offset + 1, step))
        for first in [*reversed(stretches[1::2]), *stretches[0::2]]:
            last = min(first + step - 1, delivery.last_offset)
            self._ack(delivery, first, last, wait=self._chance.random() < 0.3)
        return True

    def _ack_later(self, delivery: Delivery) -> bool:
        self._late.append(delivery)
        return True

    def _settle_late(self) -> None:
        late, self._late = self._late, []
        for delivery in reversed(late):
            self._ack(delivery, wait=self._chance.random() < 0.5)

    def _ack_until(self, delivery: Delivery) -> bool:
        if delivery.ordering is Ordering.RELAXED:  # it would settle records in the retry queue, perhaps unseen
            return self._ack_seen(delivery)
        self._settle_late()
        # What was given to a target that hangs was not answered; all of it up to here is settled now.
        self._oracle.acking(delivery.partition, [(0, delivery.last_offset)], self._subscription)
        results = delivery.ack_until(delivery.last_offset, wait=True)
        self._oracle.acked(self._owner_epochs[delivery], results, self._subscription)
        return True

    def _give_back(self, delivery: Delivery) -> bool:
        """Ack up to a random offset and nack the rest."""
        at = self._chance.randint(delivery.first_offset, delivery.last_offset)
        if at > delivery.first_offset:
            self._ack(delivery, delivery.first_offset, at - 1, wait=False)
        delivery.nack_from(at, delay_s=self._chance.choice([None, 0.0, 0.02]), wait=self._chance.random() < 0.5)
        return True

    def _hold(self, delivery: Delivery) -> bool:
        self._stop_event.wait(self._hold_s)
        self._ack(delivery, wait=True)
        return True

    def _leave(self, delivery: Delivery) -> bool:
        return False
