"""Judgement of a consumer's answer: the outcome for each part of the ranges that it names."""

from __future__ import annotations

from dataclasses import dataclass

from forebay.broker.core.delivery.answers import Answer, Results, SettleOutcome
from forebay.broker.core.delivery.in_flight import Flights
from forebay.broker.core.delivery.leases import Leases
from forebay.broker.core.delivery.retry_queue import RetryQueue
from forebay.broker.core.partition import ranges as sets
from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.ranges import Range


@dataclass(frozen=True, slots=True)
class Judgement:
    """Outcomes of an answer that is not applied yet, and the state of the lane that they hold for."""

    state: tuple[object, ...]
    results: Results


def outcomes(
    answer: Answer, requested: Range, stale: int, view: Cursor, flights: Flights, queue: RetryQueue, leases: Leases
) -> Results:
    """Return the outcome of an answer for each part of ``requested``; OK for records in flight.

    From ``stale`` on the answer is stale.
    """
    results: Results = []
    fresh = Range(requested.first, min(requested.end, stale))
    at = fresh.first
    if fresh.size > 0:
        for part in view.unsettled(fresh):
            if part.first > at:
                results.append((Range(at, part.first), SettleOutcome.ALREADY_SETTLED))
            for each, flight in flights.within(part):
                if flight is None:
                    results += _outside_flight(each, queue, leases)
                else:
                    results.append(
                        (each, SettleOutcome.OK if flight.revision <= answer.revision else SettleOutcome.STALE)
                    )
            at = part.end
        if at < fresh.end:
            results.append((Range(at, fresh.end), SettleOutcome.ALREADY_SETTLED))
    if requested.end > stale:
        results.append((Range(max(requested.first, stale), requested.end), SettleOutcome.STALE))
    return results


def _outside_flight(part: Range, queue: RetryQueue, leases: Leases) -> Results:
    leased = [each for each, lease in leases.within(part) if lease] if leases else []
    away = sorted([*queue.within(part), *leased])
    unknown = sets.missing(tuple(away), part)
    return sorted([(one, SettleOutcome.STALE) for one in away] + [(one, SettleOutcome.UNKNOWN) for one in unknown])
