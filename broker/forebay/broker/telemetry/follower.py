"""Metrics of a follower, which has no broker yet."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import EADDRINUSE
from typing import Final

from opentelemetry.metrics import CallbackOptions, Observation

from forebay.broker.runtime.metrics import Metric
from forebay.broker.settings import BrokerSettings
from forebay.broker.storage.replication.followers.progress import FollowerProgress
from forebay.broker.telemetry.figures import FOLLOWER_LAG, JOURNAL_POSITION, REMOTE_SIZE, SHARD_OWNER
from forebay.broker.telemetry.instruments import SCOPE, exporters_of

_log: Final = logging.getLogger(__name__)
FIGURES: Final[dict[Metric, Callable[[FollowerProgress], float]]] = {
    SHARD_OWNER: lambda progress: 0,
    JOURNAL_POSITION: lambda progress: progress.position,
    FOLLOWER_LAG: lambda progress: progress.lag_s,
    REMOTE_SIZE: lambda progress: progress.remote_bytes(),
}


@contextmanager
def follower_metrics(settings: BrokerSettings, progress: FollowerProgress) -> Iterator[None]:
    """Export the progress of a follower until the end, which waits for no receiver: a takeover may follow.

    Where the address for Prometheus is taken, as by an owner on the same machine, it exports to the others only. Raises
    ``ExporterSelectionInvalid``, and ``OSError`` if the address cannot be bound for another reason.
    """
    exporters = None
    try:
        exporters = exporters_of(settings, instance=settings.advertise or settings.listen)
    except OSError as error:
        if not _is_taken(error):
            raise
        _log.warning("follower exports no metrics for Prometheus cause=%s", error)
        exporters = exporters_of(settings, instance=settings.advertise or settings.listen, has_prometheus=False)
    if exporters is None:
        yield
        return
    meter = exporters.meters.get_meter(SCOPE)
    for metric, value in FIGURES.items():
        meter.create_observable_gauge(metric.name, [_observer(value, progress)], metric.unit, metric.description)
    if exporters.metrics_url:
        _log.info("follower exports metrics url=%s", exporters.metrics_url)
    try:
        yield
    finally:
        exporters.close_later()


def _is_taken(error: OSError) -> bool:
    """Return whether an address is taken now; a wrong one would fail again after a takeover."""
    return isinstance(error.__cause__, OSError) and error.__cause__.errno == EADDRINUSE


def _observer(
    value: Callable[[FollowerProgress], float], progress: FollowerProgress
) -> Callable[[CallbackOptions], list[Observation]]:
    return lambda options: [Observation(value(progress))]
