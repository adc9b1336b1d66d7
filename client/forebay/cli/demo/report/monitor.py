"""Monitor of the run: reports of the child processes, statistics of the broker, rows of the target.

It only reads. A broker that does not answer is a state to show, never an error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

from forebay.cli.demo.processes.children import Report
from forebay.cli.demo.report.reconciliation import Account
from forebay.cli.demo.report.samples import Sample
from forebay.client import Client, ClientSettings, ForebayError, RetryPolicy, SinkStats

SUBSCRIPTION: Final = "default"

ONE_ATTEMPT: Final = ClientSettings(call_timeout_s=1.0, retry=RetryPolicy(tries_max=1))
"""Client settings for one attempt with a short time limit."""


@dataclass(slots=True)
class Tally:
    """Counters reported by the child processes."""

    produced: int = 0
    """Records produced by the source."""

    batches: int = 0
    """Micro-batches finished by Spark."""

    spark_restarts: int = 0
    """Number of restarts of the query."""

    def apply(self, report: Report) -> None:
        """Apply a report of a child."""
        self.produced = int(report.facts.get("produced", self.produced))
        self.batches = int(report.facts.get("batches", self.batches))
        self.spark_restarts = int(report.facts.get("restarts", self.spark_restarts))


class Monitor:
    """Source of samples. A context manager that holds a connection to the broker."""

    def __init__(self, endpoint: str, sink: str, delivered: Callable[[], int]) -> None:
        self._client = Client(endpoint, settings=ONE_ATTEMPT)
        self._sink = sink
        self._delivered = delivered
        self._last: SinkStats | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def sample(self, at_s: float, *, produced: int, target_up: bool) -> Sample:
        """Return the current state, with the given ``produced`` and ``target_up``."""
        stats = self.stats()
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

    def stats(self) -> SinkStats | None:
        """Return the statistics of the sink, None while the broker is unavailable."""
        try:
            self._last = self._client.sinks.stats(self._sink)
        except ForebayError:
            return None
        return self._last


def accounts(stats: SinkStats) -> list[Account]:
    """Return the account of every partition, for the delivered subscription."""
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
