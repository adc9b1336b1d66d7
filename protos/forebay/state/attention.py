"""Ranked list of what needs attention, in sentences with the command that tells more.

The broker's pages and `forebay status` make it from their own figures, which have the attributes below.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol

from forebay.state.numbers import count, duration, plural, size

DEAD_LETTERS: Final = ".dlq"
"""End of the name of a sink of dead letters."""

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


class BrokerFacts(Protocol):
    """Facts of a broker that the list depends on."""

    @property
    def state(self) -> str:
        """``serving``, ``draining`` or ``fenced``."""

    @property
    def state_reason(self) -> str:
        """Reason of another state than ``serving``."""

    @property
    def endpoint(self) -> str:
        """Address."""

    @property
    def disk_free(self) -> int:
        """Free bytes of the device."""

    @property
    def disk_reserve(self) -> int:
        """Bytes that appends leave free."""

    @property
    def memory_used(self) -> int:
        """Used memory in bytes."""

    @property
    def memory_limit(self) -> int:
        """Limit of it; 0 if it is not known."""

    @property
    def memory_watermark(self) -> float:
        """Part of the limit above which the broker holds less."""

    @property
    def quarantined_pages(self) -> int:
        """Damaged pages in quarantine."""

    @property
    def warnings(self) -> Sequence[str]:
        """Sentences of the broker."""

    @property
    def journal_outage(self) -> str:
        """Reason why appends wait for the journal of a shard: ``JOURNAL_AWAY``, ``JOURNAL_FULL``, or empty."""

    @property
    def journal_outage_cause(self) -> str:
        """Error of the last request to the journal during the outage."""


class SinkFacts(Protocol):
    """Facts of a sink that the list depends on."""

    @property
    def name(self) -> str:
        """Name."""

    @property
    def state(self) -> str:
        """State as a word: see `forebay.state.flow`."""

    @property
    def waiting(self) -> int:
        """Unsettled records of the subscription that the facts are about."""

    @property
    def subscription(self) -> str:
        """Name of that subscription."""

    @property
    def reason(self) -> str:
        """Reason of a pause or a back-off."""

    @property
    def retry_in_s(self) -> float | None:
        """Time to the next try, while backing off."""

    @property
    def share(self) -> float:
        """Used part of the tightest limit, 0 to 1."""

    @property
    def full_in_s(self) -> float | None:
        """Time until that limit is reached at the present rates; None if it is not approached."""

    @property
    def dead_letters(self) -> int:
        """Records in its sink of dead letters."""


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


def needs(broker: BrokerFacts, sinks: Sequence[SinkFacts]) -> list[Need]:
    """Return what needs attention, the most urgent first."""
    found = [*_of_broker(broker), *(need for sink in sinks for need in _of_sink(sink))]
    return sorted(found, key=lambda need: (-need.severity, -need.weight, need.subject))


def _of_broker(broker: BrokerFacts) -> Iterator[Need]:
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
    if broker.journal_outage:
        full = broker.journal_outage == "JOURNAL_FULL"
        what = (
            "Appends are refused: the journal is full" if full else "Appends and acks wait: the journal does not answer"
        )
        yield Need(
            Severity.CRITICAL,
            "",
            f"{what} ({broker.journal_outage}): {broker.journal_outage_cause}.",
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
    if damaged := broker.quarantined_pages:
        are = plural(damaged, "damaged page is", "damaged pages are")
        yield Need(Severity.WARNING, "", f"{count(damaged)} {are} in quarantine.", info)
    for warning in broker.warnings:
        yield Need(Severity.WARNING, "", f"{warning.rstrip('.')}.", info)


def _of_sink(sink: SinkFacts) -> Iterator[Need]:
    lag = f"forebay lag {sink.name}"
    wait = plural(sink.waiting, "record waits", "records wait")
    who = f"{sink.name}: {count(sink.waiting)} {wait} for {sink.subscription!r}"
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
    elif sink.state == "no consumer" and not sink.name.endswith(DEAD_LETTERS):
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
            f"{sink.name} has {count(sink.dead_letters)} {plural(sink.dead_letters, 'dead letter')}.",
            f"forebay dlq list {sink.name}",
            sink.dead_letters,
        )
