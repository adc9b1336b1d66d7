"""Checks of the driver at the broker before any task starts, so that an error is reported once.

Streams cache the results (``cache``), because Spark creates a new writer for every micro-batch.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from forebay.client import BrokerInfo, BufferMode, Client, ClientSettings, RetryPolicy, Sink, errors
from forebay.errors.reasons import Reason
from forebay.page.format import PAGE_RECORDS_MAX
from forebay.spark.connection.cache import REFRESH_S, BrokerCache
from forebay.spark.options.security import secured
from forebay.spark.options.write import Delivery, Target, WriteOptions
from forebay.spark.remedies import explained

PAGES_IN_SINK_MIN: Final = 4
"""Minimum number of a task's pages that fit into a sink, regardless of its limits."""


@dataclass(frozen=True, slots=True)
class SinkFacts:
    """Facts about a sink that a write needs."""

    partitions: int
    """Number of partitions."""

    page_bytes_max: int
    """Maximum body size of a page with more than one record."""

    page_records_max: int
    """Maximum number of records per page."""

    incarnation: str
    """Incarnation of the sink; another one has other partitions, offsets and schemas."""


def connect(target: Target, *, patience_s: float) -> Client:
    """Return a client that waits up to ``patience_s`` for a broker; for driver, planners and tasks."""
    retry = RetryPolicy(tries_max=1_000_000, delay_max_s=1.0, budget_s=patience_s)
    settings = ClientSettings(call_timeout_s=max(1.0, patience_s), retry=retry)
    return Client(list(target.endpoints), settings=secured(settings, target.credentials, os.environ))


def look_up(options: WriteOptions) -> SinkFacts:
    """Return the facts of the sink, creating it if the options allow. Raises `ForebaySparkError`."""
    try:
        return _ask(options, patience_s=options.target.connect_timeout_s)
    except errors.ForebayError as error:
        raise explained(error, options.target, doing="ask for") from error


def find_sink(client: Client, name: str, *, create: bool, partitions: int | None) -> Sink:
    """Return a sink; with ``create`` it is created if it does not exist. Raises `ForebayError`."""
    try:
        return client.sinks.get(name)
    except errors.SinkNotFound:
        if not create:
            raise
        wanted: dict[str, Any] = {} if partitions is None else {"partitions": partitions}
        return client.sinks.create(name, exist_ok=True, **wanted)


def take_ticket(target: Target, incarnation: str, *, patience_s: float) -> int:
    """Take the ticket that orders the runs of a producer at the broker. Raises `ForebaySparkError`."""
    try:
        with connect(target, patience_s=patience_s) as client:
            return client.epochs.take_ticket(target.sink, incarnation=incarnation)
    except errors.ForebayError as error:
        raise explained(error, target, doing="begin to write to") from error


class SinkCache:
    """Facts of the sinks that the streams of a process use. Owned by one thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock`` is monotonic, in seconds."""
        self._facts: BrokerCache[Target, SinkFacts] = BrokerCache(clock)

    def look_up(self, options: WriteOptions) -> SinkFacts:
        """Return the facts of a sink; uses the cached ones while its broker is unavailable."""
        return self._facts.get(
            options.target,
            options.target,
            lambda patience_s: _ask(options, patience_s=patience_s),
            doing="ask for",
            is_valid=lambda facts: self._still_exists(options, facts),
        )

    def invalidate(self, target: Target, gone: errors.ForebayError) -> bool:
        """Remove a sink that no longer exists; return True if another look-up may help."""
        return self._facts.invalidate(target) or isinstance(gone, errors.SinkReplaced)

    def _still_exists(self, options: WriteOptions, facts: SinkFacts) -> bool:
        """Return True if the sink is the cached one; for exactly-once writes the ticket checks that."""
        if options.delivery is Delivery.EXACTLY_ONCE:
            return True
        try:
            with connect(options.target, patience_s=REFRESH_S) as client:
                return client.sinks.get(options.target.sink).incarnation == facts.incarnation
        except (errors.BrokerUnavailable, errors.DeadlineExceeded):
            return True
        except errors.ForebayError:
            return False


def _ask(options: WriteOptions, *, patience_s: float) -> SinkFacts:
    name = options.target.sink
    with connect(options.target, patience_s=patience_s) as client:
        sink = find_sink(client, name, create=options.create_sink, partitions=options.partitions)
        if options.delivery is Delivery.EXACTLY_ONCE and sink.settings.buffer_mode is BufferMode.MEMORY:
            raise errors.FailedPrecondition(
                f"sink {name!r} is in memory only, and exactly-once writes require a sink on disk",
                reason=Reason.STAGING_UNSUPPORTED,
            )
        return _facts(sink, client.info())


def _facts(sink: Sink, info: BrokerInfo) -> SinkFacts:
    """Return the facts of a sink, with page limits below the sink's own limits."""
    settings, records = sink.settings, PAGE_RECORDS_MAX
    if settings.max_disk_cache:
        records = min(records, max(1, settings.max_disk_cache // PAGES_IN_SINK_MIN))
    return SinkFacts(
        partitions=settings.partitions,
        page_bytes_max=min(info.page_bytes_max, max(1, settings.max_total_bytes // PAGES_IN_SINK_MIN)),
        page_records_max=records,
        incarnation=sink.incarnation,
    )


SINKS: Final = SinkCache(time.monotonic)
"""Sinks that the streams of this process have used."""
