"""Witnesses of a fleet: each publishes to one broker, past every proxy, and keeps every receipt with its time.

What an owner confirms is in the final history, once and at its offset. For a record that was sent to it after its
successor served, an owner gives no receipt at all.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from forebay.client import Client, ClientSettings, Durability, ForebayError, Record, ReplayedRecord, RetryPolicy
from tests.fault_fleet.fleet import Member, Service

SINK: Final = "witnessed"
PAUSE_S: Final = 0.05
"""Between two records, and after a call that failed."""
SETTINGS: Final = ClientSettings(
    call_timeout_s=5.0,
    retry=RetryPolicy(tries_max=1),
    reconnect=RetryPolicy(tries_max=None, delay_min_s=0.01, delay_max_s=0.05, budget_s=None),
)


@dataclass(frozen=True, slots=True)
class Confirmed:
    """Record with a receipt."""

    member: str
    life: int
    """Process that was asked; 0 if another one began during the call."""

    asked_s: float
    """Monotonic time before the record was sent."""

    answered_s: float
    value: bytes
    offset: int
    durability: Durability


class Witness(threading.Thread):
    """Publisher of one record at a time, until ``stop``."""

    def __init__(self, member: Member, stop: threading.Event) -> None:
        super().__init__(name=f"witness-{member.name}", daemon=True)
        self._member = member
        self._stop_event = stop
        self.confirmed: list[Confirmed] = []
        """Grows only; any thread may read it."""
        self.failure: BaseException | None = None
        """Error that ended it."""

    def run(self) -> None:
        """Publish until stopped."""
        try:
            with Client(self._member.endpoint, settings=SETTINGS) as client:
                for number in count():
                    if self._stop_event.wait(PAUSE_S):
                        break
                    self._publish(client, b"%s-%d" % (self._member.name.encode(), number))
        except BaseException as failure:
            self.failure = failure
            raise

    def _publish(self, client: Client, value: bytes) -> None:
        life, asked_s = self._member.life, time.monotonic()
        try:
            [receipt] = client.publish(SINK, [Record(value)], partition=0)
        except ForebayError:
            return
        answered_s = time.monotonic()
        assert receipt.first_offset is not None
        known_life = life if self._member.life == life else 0
        self.confirmed.append(
            Confirmed(
                self._member.name, known_life, asked_s, answered_s, value, receipt.first_offset, receipt.durability
            )
        )

    def has_confirmed(self, life: int, since_s: float) -> bool:
        """Return True if that life has given a receipt for a record sent since then."""
        last = self.confirmed[-1] if self.confirmed else None
        return last is not None and last.life == life and last.asked_s >= since_s


@dataclass(frozen=True, slots=True)
class Verdict:
    """Comparison of all receipts with the final history."""

    lost: Sequence[Confirmed]
    doubled: Sequence[bytes]
    after_fence: Sequence[Confirmed]
    """Receipts for what was sent to an owner after its successor served."""

    weak: Sequence[Confirmed]
    """Receipts that did not say that the journal has the record."""

    answered_late: int
    """Receipts for what was sent before, and that arrived after the successor served; the record is in the history."""


def history(client: Client) -> dict[int, bytes]:
    """Return the records of the last owner by their offsets."""
    records = client.replay(SINK, partition=0, start=0)
    return {record.offset: record.value for record in records if isinstance(record, ReplayedRecord)}


def judge(found: Mapping[int, bytes], confirmed: Sequence[Confirmed], services: Sequence[Service]) -> Verdict:
    """Compare receipts with the final history, by its offsets."""
    return Verdict(
        lost=[one for one in confirmed if found.get(one.offset) != one.value],
        doubled=[value for value, times in Counter(found.values()).items() if times > 1],
        after_fence=[one for one in confirmed if one.asked_s > successor_of(one, services)],
        weak=[one for one in confirmed if one.durability is not Durability.REPLICATED],
        answered_late=sum(one.asked_s <= successor_of(one, services) < one.answered_s for one in confirmed),
    )


def successor_of(one: Confirmed, services: Sequence[Service]) -> float:
    """Return the time from which a later owner served than the one that gave a receipt; infinite if there is none."""
    at = next((at for at, each in enumerate(services) if (each.member, each.life) == (one.member, one.life)), None)
    return services[at + 1].at_s if at is not None and at + 1 < len(services) else float("inf")
