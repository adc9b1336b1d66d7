"""Explanation as a few sentences. The text is not API: programs read the fields."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from forebay.broker.core.backups.values import Restored
from forebay.broker.core.partition.explanation import Explanation, RecordPlace, RecordState, Wait
from forebay.broker.core.partition.pages import DropReason, Gap
from forebay.broker.runtime.read.explanation import Explained
from forebay.state.numbers import plural

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_STATES: Final = {
    RecordState.PENDING: "{name} has not settled it",
    RecordState.LEASED: "It is in a resend set of {name}",
    RecordState.ACKED: "{name} acked it",
    RecordState.DEAD_LETTERED: "{name} moved it to the dead-letter sink; see `forebay dlq list`",
    RecordState.DROPPED: "It was dropped before {name} had settled it",
    RecordState.SKIPPED: "{name} skipped it by a seek",
    RecordState.SETTLED: "{name} settled it; the way is no longer known",
    RecordState.BEFORE_START: "{name} begins after it",
}

_WAITS: Final = {
    Wait.PAUSED: "The sink is paused: {detail}.",
    Wait.PURGE: "A purge is in progress.",
    Wait.NO_CONSUMER: "No consumer is connected.",
    Wait.PULL: "Its consumer has to call Pull again.",
    Wait.MOVING: "The partition is handed over to another consumer, at {until} at the latest.",
    Wait.BACKING_OFF: "The next attempt is at {until}; the last one failed: {detail}.",
    Wait.PROBING: "One page is in flight to probe the target.",
    Wait.RESEND_INTERVAL: "Pages are resent one at a time, at the interval resend_interval of the sink.",
    Wait.ACK_HOLES_FULL: "Too many ranges are settled above the lowest records in flight, which must be settled first.",
    Wait.IN_FLIGHT_LIMIT: "The records in flight reach the bound in_flight_bytes_max of the sink: {detail}.",
    Wait.NO_CREDIT: "The consumer has used up its credit: {detail}.",
    Wait.ANSWER: "Its answer is due at {until}.",
    Wait.LEASE: "It is leased in the resend set of {detail} until {until}, unless that is extended.",
    Wait.PARKED: "It waits in the retry queue until {until}; the last failure was: {detail}.",
    Wait.DEAD_LETTER: "It is being moved to another sink, and is settled when that batch is durable.",
    Wait.DEAD_LETTERS_FULL: "Too many records are being moved to the dead-letter sink; these must be durable first.",
    Wait.READ_FAILED: "The read failed and is retried: {detail}.",
    Wait.BEHIND: "{before} other records are sent before it.",
    Wait.NOTHING: "It is sent next.",
}


def text(explained: Explained, subscription: str, restored: Restored | None = None) -> str:
    """Return an explanation of a record as text; ``restored`` names the backup of the last restore."""
    found = explained.explanation
    if found.place is RecordPlace.NOT_ASSIGNED:
        return f"No record has offset {found.offset} yet: the next one gets {found.next_offset}."
    sentences = [_where(found, restored), _done(explained, subscription)]
    if (
        found.state in {RecordState.PENDING, RecordState.IN_FLIGHT, RecordState.LEASED}
        and found.place is not RecordPlace.AWAITING_COMMIT
    ):
        waiting = found.waiting
        until = "" if waiting.until is None else _time(explained.wall_us(waiting.until))
        detail = waiting.detail or "no reason was given"
        sentences.append(_WAITS[waiting.reason].format(until=until, detail=detail, before=f"{found.before:,}"))
        if found.restored_at_us is not None:
            backup = _backup(found.restored_at_us, restored)
            sentences.append(
                f"The broker was restored at {_time(found.restored_at_us)} from {backup} that has it: if it was acked "
                "after the backup, it is delivered again."
            )
    return " ".join(sentences)


def _where(found: Explanation, restored: Restored | None) -> str:
    if found.entry is not None:
        memory = ", and in memory" if found.place is RecordPlace.RECENT else ""
        return f"It is on disk{memory}, in the page of offsets {found.entry.base} to {found.entry.end - 1}."
    if found.place is RecordPlace.DROPPED and found.gap is not None:
        return _dropped(found.gap, restored)
    return _PLACES[found.place](found)


_PLACES: Final[dict[RecordPlace, Callable[[Explanation], str]]] = {
    RecordPlace.DISK: lambda _: "It is on disk; its page is not known while the index cannot be read.",
    RecordPlace.AWAITING_COMMIT: lambda _: "It waits for the batch that makes it durable.",
    RecordPlace.TRIMMED: lambda _: "Every subscription had settled it, and its page was deleted.",
    RecordPlace.MISSING: lambda _: "It should be stored, but the index has no entry of its page: the store is damaged.",
}


def _dropped(gap: Gap, restored: Restored | None) -> str:
    place = f"the gap of offsets {gap.first} to {gap.end - 1}"
    if not gap.merged and gap.reason is DropReason.RESTORED:
        return (
            f"The broker was restored at {_time(gap.at_us)} from {_backup(gap.at_us, restored)}, and the offset is in "
            f"{place}: a record that got it after the backup is lost, and no other one gets it."
        )
    if not gap.merged:
        return f"It was dropped at {_time(gap.at_us)}, reason {gap.reason.name}, with {place}."
    counts = ", ".join(f"{DropReason(reason).name} {records:,}" for reason, records in gap.counts)
    when = f"{_time(gap.first_at_us)} and {_time(gap.at_us)}"
    if not gap.whole:
        return f"It was settled or dropped: it is in {place}, in which were dropped between {when}: {counts}."
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
    tries = f"; {found.attempts} failed {plural(found.attempts, 'attempt')} so far" if found.attempts else ""
    return f"{done}{tries}."


def _backup(restored_at_us: int, restored: Restored | None) -> str:
    """Name the backup of a restore; that of an earlier one than the last is not known."""
    if restored is None or restored.restored_at_us != restored_at_us:
        return "a backup"
    return f"the backup {restored.backup} of {_time(restored.taken_at_us)}"


def _time(microseconds: int) -> str:
    return (_EPOCH + timedelta(microseconds=microseconds)).isoformat(timespec="milliseconds")
