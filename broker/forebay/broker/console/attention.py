"""Ranked list of what needs attention, in sentences with the command that tells more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from forebay.broker.console.figures import BrokerFigures, SinkFigures
from forebay.broker.console.text import count, duration, size
from forebay.broker.core.names import RESERVED_SUFFIX

LISTED_MAX: Final = 20
"""Sentences in the list; the rest are counted."""

NEARLY_FULL: Final = 0.8
"""Used part of a limit from which on a sink is reported."""

SOON_S: Final = 3_600.0
"""Time to full from which on a growing sink is reported."""


class Severity(IntEnum):
    """Rank of a sentence."""

    NOTICE = 1
    """Works as it was set; good to know."""

    WARNING = 2
    """Data waits, or will not fit soon."""

    CRITICAL = 3
    """Records are refused or dropped now."""


@dataclass(frozen=True, slots=True)
class Need:
    """One sentence."""

    severity: Severity
    subject: str
    """Sink, or empty for the broker."""

    sentence: str
    command: str
    """Command that tells more."""

    weight: float = 0.0
    """Rank among sentences of one severity: higher is first."""


def needs(broker: BrokerFigures, sinks: Sequence[SinkFigures]) -> list[Need]:
    """Return what needs attention, the most urgent first."""
    found = [*_of_broker(broker), *(need for sink in sinks for need in _of_sink(sink))]
    return sorted(found, key=lambda need: (-need.severity, -need.weight, need.subject))


def _of_broker(broker: BrokerFigures) -> Iterator[Need]:
    info = f"forebay info --endpoint {broker.endpoint}"
    if broker.state != "serving":
        yield Need(Severity.CRITICAL, "", f"The broker is {broker.state}: {broker.state_reason}.", info, weight=2)
    if broker.disk_free < broker.disk_reserve:
        yield Need(
            Severity.CRITICAL,
            "",
            f"Appends are refused: {size(broker.disk_free)} of the disk are free, {size(broker.disk_reserve)} are"
            " reserved.",
            info,
            weight=1,
        )
    if broker.memory_limit and broker.memory_used > broker.memory_limit * broker.memory_watermark:
        yield Need(
            Severity.WARNING,
            "",
            f"Memory is above the high watermark: {size(broker.memory_used)} of {size(broker.memory_limit)} are used.",
            info,
        )
    if broker.quarantined_pages:
        yield Need(Severity.WARNING, "", f"{count(broker.quarantined_pages)} damaged pages are in quarantine.", info)
    for warning in broker.warnings:
        yield Need(Severity.WARNING, "", f"{warning.rstrip('.')}.", info)


def _of_sink(sink: SinkFigures) -> Iterator[Need]:
    lag = f"forebay lag {sink.name}"
    who = f"{sink.name}: {count(sink.waiting)} records wait for {sink.subscription!r}"
    reason = f": {sink.reason}" if sink.reason else ""
    if sink.state == "full":
        yield Need(
            Severity.CRITICAL, sink.name, f"{sink.name} is full: new records are refused, or drop old ones.", lag,
            sink.waiting,
        )  # fmt: skip
    if sink.state == "paused":
        yield Need(Severity.NOTICE, sink.name, f"{who}, which is paused{reason}.", lag, sink.waiting)
    elif sink.state == "backing off":
        again = f" The next try is in {duration(sink.retry_in_s)}." if sink.retry_in_s is not None else ""
        yield Need(Severity.WARNING, sink.name, f"{who}, whose target fails{reason}.{again}", lag, sink.waiting)
    elif sink.state == "no consumer" and not sink.name.endswith(RESERVED_SUFFIX):
        # Dead letters wait for a decision, which the sentence about their origin says.
        yield Need(Severity.WARNING, sink.name, f"{who}, and no consumer is connected.", lag, sink.waiting)
    full_in_s = sink.full_in_s
    if full_in_s is not None and (full_in_s < SOON_S or sink.share >= NEARLY_FULL):
        yield Need(
            Severity.WARNING,
            sink.name,
            f"{sink.name} will be full in {duration(full_in_s)} at the present rates; {sink.share:.0%} of its limit"
            " is used.",
            lag,
            1e12 / max(1.0, full_in_s),
        )
    if sink.dead_letters:
        yield Need(
            Severity.NOTICE,
            sink.name,
            f"{sink.name} has {count(sink.dead_letters)} dead letters.",
            f"forebay dlq list {sink.name}",
            sink.dead_letters,
        )
