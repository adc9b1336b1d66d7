"""A sink of a campaign whose target rejects records for good: each ends once, as acked or as a dead letter.

What becomes of a place is decided by the place alone, so every try of it is answered alike, whatever was killed before
the answer counted. A dead letter that is redriven gets another place, and with that another fate. In the end all were
redriven until none was rejected, and then of all places of a record exactly one was acked.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from forebay.client import Client, Delivery, Durability, ForebayError, SinkStats
from tests.support.campaigns.publishers import SETTINGS
from tests.support.oracles.oracle import Oracle
from tests.support.oracles.records import identity_of, number_of, source_of

SINK: Final = "rejecting"
PARTITIONS: Final = 2
EVERY: Final = 5
"""One place in so many is rejected."""
NACK: Final = 0.03
LEAVE: Final = 0.03
ENDS_S: Final = 120.0
WATCH_S: Final = 0.1


def is_rejected(offset: int) -> bool:
    """Return True if the target rejects the record permanently."""
    return offset % EVERY == EVERY - 1


class Places(Oracle):
    """Record at each offset, and checks of the broker's statements about it. Thread-safe."""

    def __init__(self) -> None:
        super().__init__(SINK, PARTITIONS, may_drop=False)
        self._records: dict[tuple[int, int], int] = {}
        self._delivered: set[tuple[int, int]] = set()
        self._receipts: set[tuple[int, int]] = set()
        self.redriven = 0
        """Dead letters that are known to have been redriven."""

    def receipt(
        self,
        partition: int,
        first: int | None,
        records: Sequence[int],
        durability: Durability = Durability.DISK,
        *,
        duplicate: bool = False,
    ) -> None:
        """``records`` were acknowledged, in order, from ``first`` on."""
        for offset, record in enumerate(records, first or 0):
            if first is not None:
                self._place(partition, offset, record)
                self._receipts.add((partition, offset))

    def given(self, partition: int, offset: int, record: int) -> None:
        """A consumer was given a record; called before it answers."""
        self._place(partition, offset, record)
        self._delivered.add((partition, offset))

    def _place(self, partition: int, offset: int, record: int) -> None:
        known = self._records.setdefault((partition, offset), record)
        if known != record:
            self.fault("lost", f"{partition}/{offset} held {known}, and then {record}")

    def judge(self, origin: SinkStats, dead: SinkStats) -> dict[str, int]:
        """Compare all with what the two sinks count, when nothing is pending; returns the figures."""
        for lost in self._receipts - self._delivered:
            self.fault("lost", f"the record at {lost} was never delivered")
        acked = Counter(self._records[place] for place in self._delivered if not is_rejected(place[1]))
        known = set(self._records.values())
        for record in known:
            if acked[record] != 1:
                kind = "duplicates" if acked[record] else "lost"
                who = f"record {number_of(record)} of source {source_of(record)}"
                self.fault(kind, f"{who} was taken by the target {acked[record]} times")
        rejected = sum(is_rejected(offset) for _, offset in self._delivered)
        account = [one for found in origin.subscriptions for one in found.partitions]
        told = {
            "offsets": (sum(one.next_offset for one in origin.partitions), len(self._delivered)),
            "acked": (sum(one.acked for one in account), sum(acked.values())),
            "dead lettered": (sum(one.dead_lettered for one in account), rejected),
            "dead letters": (sum(one.next_offset for one in dead.partitions), rejected),
            "redriven": (sum(one.acked for found in dead.subscriptions for one in found.partitions), rejected),
            "records, by their places": (len(self._delivered) - rejected, len(known)),
        }
        for what, (broker, seen) in told.items():
            if broker != seen:
                self.fault("identity_broken", f"{what}: {broker}, and {seen} were seen")
        if not (origin.identity_ok and dead.identity_ok):
            self.fault("identity_broken", "the broker says that an account does not balance")
        return {"records": len(known), "dead_letters": rejected, "redriven": self.redriven}


class RejectingConsumer(threading.Thread):
    """Takes and answers by place, until ``stop``; gives some back, and goes away sometimes, unless all is ``calm``."""

    def __init__(
        self, endpoint: str, places: Places, chance: random.Random, stop: threading.Event, calm: threading.Event
    ) -> None:
        super().__init__(name=f"consumer-{SINK}", daemon=True)
        self._endpoint = endpoint
        self._places = places
        self._chance = chance
        self._stop_event = stop
        self._calm = calm

    def run(self) -> None:
        """Consume until stopped."""
        try:
            with Client(self._endpoint, settings=SETTINGS) as client:
                while not self._stop_event.is_set():
                    self._live(client)
        except Exception as error:  # noqa: BLE001 - whatever ends a witness spoils the evidence
            self._places.fault("faults", f"{self.name} ended with {error!r}")

    def _live(self, client: Client) -> None:
        with client.subscriber(SINK, credit_records=500) as subscriber:
            while not self._stop_event.is_set():
                delivery = subscriber.take(0.1)
                if delivery is None:
                    continue
                if delivery.gap is not None:
                    self._places.fault("lost", f"there is a gap: {delivery.gap}")
                elif not self._handle(delivery):
                    return

    def _handle(self, delivery: Delivery) -> bool:
        """Answer one delivery; ``False`` is the end of this life."""
        for record in delivery:
            self._places.given(delivery.partition, record.offset, identity_of(record.value) or 0)
            if not self._calm.is_set():
                chance = self._chance.random() * len(delivery)
                if chance < NACK:
                    delivery.nack_from(record.offset, delay_s=0.0)
                    return True
                if chance < NACK + LEAVE:
                    return False
            if is_rejected(record.offset):
                delivery.dead_letter("never", offset=record.offset)
            else:
                delivery.ack(record.offset)
        return True


def make(client: Client) -> None:
    """Create the sink."""
    client.sinks.create(
        SINK,
        partitions=PARTITIONS,
        retry_backoff_min_s=0.01,
        retry_backoff_max_s=0.1,
        ack_deadline_s=0.5,
        dlq_ratio_max=1.0,
        dlq_consecutive_max=0,
    )


def redrive(client: Client, places: Places) -> None:
    """Bring the dead letters back, as far as a kill lets it."""
    with suppress(ForebayError):  # killed, or there is none yet: what was redriven gets its places all the same
        places.redriven += client.dead_letters.redrive(SINK)


def _has_rejected(origin: SinkStats) -> bool:
    return any(one.dead_lettered for found in origin.subscriptions for one in found.partitions)


def await_rejection(client: Client, places: Places) -> None:
    """Wait until a record is a dead letter, while publishers are running and no process is killed."""
    until = time.monotonic() + ENDS_S
    for origin in client.sinks.watch(SINK, interval_s=WATCH_S):
        if _has_rejected(origin):
            return
        if time.monotonic() > until:
            break
    places.fault("faults", f"no record was rejected within {ENDS_S:g} s: {origin}")


def finish(client: Client, places: Places) -> dict[str, int]:
    """Redrive, without kills, until no record is pending, then judge; returns the figures."""
    until = time.monotonic() + ENDS_S
    for origin in client.sinks.watch(SINK, interval_s=WATCH_S):
        if origin.pending() == 0 and _has_rejected(origin):
            if client.sinks.stats(f"{SINK}.dlq").pending():
                redrive(client, places)
                continue
            # The stats of the stream may be from before a redrive. Nothing returns to the origin now, so when nothing
            # is pending there either, no more dead letters are added, and the next read of their stats is final.
            settled, dead = client.sinks.stats(SINK), client.sinks.stats(f"{SINK}.dlq")
            if settled.pending() == 0 and dead.pending() == 0:
                return places.judge(settled, dead)
        if time.monotonic() > until:
            break
    places.fault("faults", f"not settled after {ENDS_S:g} s: {origin}")
    return {}
