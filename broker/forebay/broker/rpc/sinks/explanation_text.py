"""An explanation as a few sentences for people. Text is not API: programs read the fields."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from forebay.broker.core.partition.explanation import Explanation, Place, RecordState, Wait
from forebay.broker.core.partition.pages import DropReason, Gap
from forebay.broker.runtime.read.explanation import Explained

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_STATES: Final = {
    RecordState.PENDING: "{name} has still to settle it",
    RecordState.LEASED: "{name} has leased it out",
    RecordState.ACKED: "{name} acked it",
    RecordState.DEAD_LETTERED: "{name} moved it to the dead letters, which `forebay dlq list` shows",
    RecordState.DROPPED: "{name} had not settled it and counts it as dropped",
    RecordState.SKIPPED: "{name} passed over it by a seek",
    RecordState.SETTLED: "{name} settled it, how is no longer known",
    RecordState.BEFORE_START: "{name} begins behind it",
}

_WAITS: Final = {
    Wait.PAUSED: "The sink is paused: {detail}.",
    Wait.PURGE: "A purge is under way.",
    Wait.NO_CONSUMER: "No consumer is connected.",
    Wait.PULL: "Its consumer has to pull again.",
    Wait.MOVING: "The partition goes over to another consumer, at the latest at {until}.",
    Wait.BACKING_OFF: "The next try is at {until}; the last one failed: {detail}.",
    Wait.PROBING: "One page is in flight to see whether the target is back.",
    Wait.RESEND_INTERVAL: "Resends go one by one, at the sink's resend_interval.",
    Wait.ACK_HOLES_FULL: "Too many ranges are settled beyond the lowest records in flight: these have to be answered.",
    Wait.IN_FLIGHT_LIMIT: "In flight is as much as the sink's in_flight_bytes_max allows: {detail}.",
    Wait.NO_CREDIT: "The consumer has used up its credit: {detail}.",
    Wait.ANSWER: "Its answer is due at {until}.",
    Wait.LEASE: "It is in the set of {detail}, until {until} unless that is extended.",
    Wait.PARKED: "It has stepped aside until {until}; the last failure was: {detail}.",
    Wait.DEAD_LETTER: "It is on its way to another sink, and settled there when the batch that moves it is on disk.",
    Wait.DEAD_LETTERS_FULL: "Too many records are on their way to the dead letters: these have to arrive.",
    Wait.READ_FAILED: "The disk does not answer, and is asked again: {detail}.",
    Wait.BEHIND: "It comes behind {before} others.",
    Wait.NOTHING: "It goes out next.",
}


def text(explained: Explained, subscription: str) -> str:
    """Return an explanation of a record as text."""
    found = explained.explanation
    if found.place is Place.NOT_ASSIGNED:
        return f"No record has offset {found.offset} yet: the next one gets {found.next_offset}."
    said = [_where(found), _done(explained, subscription)]
    if (
        found.state in {RecordState.PENDING, RecordState.IN_FLIGHT, RecordState.LEASED}
        and found.place is not Place.AWAITING_COMMIT
    ):
        waiting = found.waiting
        until = "" if waiting.until is None else _time(explained.wall_us(waiting.until))
        detail = waiting.detail or "no reason was given"
        said.append(_WAITS[waiting.reason].format(until=until, detail=detail, before=f"{found.before:,}"))
    return " ".join(said)


def _where(found: Explanation) -> str:
    if found.entry is not None:
        memory = ", and in memory" if found.place is Place.RECENT else ""
        return f"It is on disk{memory}, in the page of offsets {found.entry.base} to {found.entry.end - 1}."
    if found.place is Place.DROPPED and found.gap is not None:
        return _dropped(found.gap)
    return _PLACES[found.place](found)


_PLACES: Final[dict[Place, Callable[[Explanation], str]]] = {
    Place.DISK: lambda _: "It is on disk; its page is not known while the index cannot be read.",
    Place.AWAITING_COMMIT: lambda _: "It waits for the batch that makes it durable.",
    Place.TRIMMED: lambda _: "Every subscription had settled it, and its page was deleted.",
    Place.MISSING: lambda _: "It should be stored, but the index does not name its page: the store is damaged.",
}


def _dropped(gap: Gap) -> str:
    place = f"the gap of offsets {gap.first} to {gap.end - 1}"
    if not gap.merged:
        return f"It was dropped at {_time(gap.at_us)}, reason {gap.reason.name}, with {place}."
    counts = ", ".join(f"{DropReason(reason).name} {records:,}" for reason, records in gap.counts)
    when = f"{_time(gap.first_at_us)} and {_time(gap.at_us)}"
    if not gap.whole:
        return f"It was settled or dropped: it lies in {place}, of which were dropped between {when}: {counts}."
    return f"It was dropped between {when}, with {place}: {counts}."


def _done(explained: Explained, subscription: str) -> str:
    found = explained.explanation
    if found.state is None:
        return ""
    if found.state is RecordState.IN_FLIGHT and found.sent_at is not None:
        done = f"Consumer {found.owner} of {subscription} has it since {_time(explained.wall_us(found.sent_at))}"
    else:
        done = _STATES[found.state].format(name=f"Subscription {subscription}")
    own = found.rejection
    if own is not None and own.whole and found.state is RecordState.DROPPED:
        done = f"Subscription {subscription} dropped it at {_time(own.at_us)}, rejected by its target"
        done += f": {own.detail}" if own.detail else ""
    tries = f"; {found.attempts} failed {'try' if found.attempts == 1 else 'tries'} so far" if found.attempts else ""
    return f"{done}{tries}."


def _time(microseconds: int) -> str:
    return (_EPOCH + timedelta(microseconds=microseconds)).isoformat(timespec="milliseconds")
