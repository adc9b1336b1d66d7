"""Looks at the run from outside: at what the children report, the broker's statistics and the target's table.

It only ever asks; a broker that does not answer is a state to show, never an error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from forebay.cli.demo.processes import Report
from forebay.cli.demo.reconcile import Account
from forebay.cli.demo.samples import Sample
from forebay.client import Client, ClientSettings, ForebayError, RetryPolicy, SinkStats

SUBSCRIPTION: Final = "default"

ASK_ONCE: Final = ClientSettings(call_timeout_s=1.0, retry=RetryPolicy(tries_max=1))
"""For looking: an answer now or none."""


@dataclass(slots=True)
class Tally:
    """What the children have reported so far."""

    produced: int = 0
    """Records that the source says it has produced."""

    batches: int = 0
    """Micro-batches that Spark has finished."""

    spark_restarts: int = 0
    """How often the query was started again."""

    def heard(self, report: Report) -> None:
        """Take in what a child said."""
        self.produced = int(report.facts.get("produced", self.produced))
        self.batches = int(report.facts.get("batches", self.batches))
        self.spark_restarts = int(report.facts.get("restarts", self.spark_restarts))


class Monitor:
    """Makes samples. A context manager: it holds a connection to the broker."""

    def __init__(self, endpoint: str, sink: str, delivered: Callable[[], int]) -> None:
        self._client = Client(endpoint, settings=ASK_ONCE)
        self._sink = sink
        self._delivered = delivered
        self._last: SinkStats | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def sample(self, at_s: float, *, produced: int, target_up: bool) -> Sample:
        """The state now; ``produced`` and ``target_up`` are what the caller knows."""
        stats = self.ask()
        known = stats or self._last
        return Sample(
            at_s=at_s,
            produced=produced,
            published=sum(part.next_offset for part in known.partitions) if known else 0,
            delivered=self._delivered(),
            age_s=_oldest_s(known) if known else 0.0,
            broker_up=stats is not None,
            target_up=target_up,
        )

    def ask(self) -> SinkStats | None:
        """The statistics of the sink, or nothing while the broker is away."""
        try:
            self._last = self._client.sinks.stats(self._sink)
        except ForebayError:
            return None
        return self._last


def accounts(stats: SinkStats) -> list[Account]:
    """The account of every partition, for the subscription that is delivered."""
    heads = {part.partition: part.next_offset for part in stats.partitions}
    return [
        Account(
            partition=part.partition,
            start_offset=part.start_offset,
            next_offset=heads[part.partition],
            acked=part.acked,
            dead_lettered=part.dead_lettered,
            dropped=part.dropped,
            skipped=part.skipped,
            pending=part.pending,
        )
        for subscription in stats.subscriptions
        if subscription.name == SUBSCRIPTION
        for part in subscription.partitions
    ]


def _oldest_s(stats: SinkStats) -> float:
    ages = [part.pending_age_s for found in stats.subscriptions for part in found.partitions]
    return max(ages, default=0.0)
