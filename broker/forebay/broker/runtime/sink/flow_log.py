"""Log of the states of sinks and subscriptions: one event per change, none per partition or attempt.

Only states that need attention are logged, when they begin and when they end. A subscription whose state alternates is
logged at most once per `INTERVAL_S`, with the number of its changes. If many sinks change at once, as in the outage of
a remote system, a minute has `EVENTS_MAX` events, and one that counts the others.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Final

from forebay.broker.core.dead_letters.letters import is_dead_letter_sink
from forebay.broker.core.delivery.redelivery import State
from forebay.broker.core.settings import Overflow
from forebay.broker.runtime.delivery.flow import flow_of
from forebay.broker.runtime.delivery.subscription import Subscription
from forebay.broker.runtime.sink.state import Sink
from forebay.state.flow import Flow

_log: Final = logging.getLogger(__name__)
INTERVAL_S: Final = 10.0
"""Minimum time between two events of one subscription."""
WINDOW_S: Final = 60.0
EVENTS_MAX: Final = 100
"""Maximum number of events of all sinks in `WINDOW_S`."""
REASON_CHARACTERS_MAX: Final = 200
"""Maximum length of a reason in an event; the statistics have all of it."""


@dataclass(slots=True)
class _Logged:
    """State of a subscription as it was last logged, and the one that was seen last."""

    state: Flow
    since: float
    """Time since when it has the logged state."""
    at: float
    """Time of the last event."""
    seen: Flow
    changes: int = 0
    """Changes since the last event."""


class FlowLog:
    """States of the sinks of one broker as they were logged. Used on the loop."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._subscriptions: dict[int, dict[str, _Logged]] = {}
        """By number of the sink, then by name."""
        self._full: dict[int, float] = {}
        """Sinks that are full, with the time since when they are."""
        self._window = clock()
        self._events = 0
        self._omitted: Counter[str] = Counter()
        """Events that were not logged in this window, by state."""

    def begin(self, sinks: Set[int]) -> None:
        """Begin a sweep over these sinks: all others were deleted."""
        for known in (self._subscriptions, self._full):
            for number in known.keys() - sinks:
                del known[number]
        if self._clock() - self._window < WINDOW_S:
            return
        if self._omitted:
            counts = ", ".join(f"{state}: {count}" for state, count in sorted(self._omitted.items()))
            _log.warning(
                "states changed without an event of their own changes=%d states=%r", self._omitted.total(), counts
            )
        self._window, self._events = self._clock(), 0
        self._omitted.clear()

    def observe(self, sink: Sink, subscriptions: Mapping[str, Subscription]) -> None:
        """Log the changes of a sink and its subscriptions since they were observed last."""
        self._observe_limit(sink)
        logged = self._subscriptions.setdefault(sink.id, {})
        for name in logged.keys() - subscriptions.keys():
            del logged[name]
        for subscription in subscriptions.values():
            self._observe(sink, subscription, logged)

    def _observe_limit(self, sink: Sink) -> None:
        since = self._full.get(sink.id)
        if sink.full and since is None:
            self._full[sink.id] = self._clock()
            if self._admit(Flow.FULL):
                _log.warning(
                    "sink became full sink=%s overflow=%s records=%d bytes=%d limit_used=%.2f",
                    sink.name,
                    Overflow(sink.settings.overflow).name,
                    sink.live.records,
                    sink.live.size,
                    sink.limit_used,
                )
        elif not sink.full and since is not None:
            del self._full[sink.id]
            if self._admit(Flow.FLOWING):
                _log.info("sink had room again sink=%s after_s=%.1f", sink.name, self._clock() - since)

    def _observe(self, sink: Sink, subscription: Subscription, logged: dict[str, _Logged]) -> None:
        now, state = self._clock(), _state_of(sink, subscription)
        known = logged.get(subscription.name)
        is_first = known is None
        if known is None:
            known = logged[subscription.name] = _Logged(Flow.IDLE, now, now - INTERVAL_S, Flow.IDLE)
        if state is not known.seen:
            known.seen, known.changes = state, known.changes + 1
        if state is known.state or now - known.at < INTERVAL_S:
            return
        before, lasted_s, changes = known.state, now - known.since, known.changes
        known.state, known.since, known.changes = state, now, 0
        if not (before.needs_attention or state.needs_attention):
            return
        if not is_first and _is_logged_by_control(before, state):
            return
        known.at = now
        if self._admit(state):
            self._write(sink, subscription, before, state, lasted_s, changes)

    def _write(
        self, sink: Sink, subscription: Subscription, before: Flow, state: Flow, lasted_s: float, changes: int
    ) -> None:
        pending = sum(
            lane.cursor.pending(log.tail.next_offset) for lane, log in zip(subscription.lanes, sink.logs, strict=True)
        )
        reasons = [lane.resend.reason for lane in subscription.lanes if lane.resend.reason]
        _log.log(
            logging.WARNING if state.needs_attention else logging.INFO,
            "subscription changed state sink=%s subscription=%s state=%r before=%r before_s=%.1f changes=%d "
            "waiting=%d consumers=%d partitions_backing_off=%d reason=%r",
            *(sink.name, subscription.name, state.value, before.value, lasted_s, changes),
            *(pending, len(subscription.owners.consumers)),
            sum(lane.resend.state is State.BACKING_OFF for lane in subscription.lanes),
            reasons[0][:REASON_CHARACTERS_MAX] if reasons and state.needs_attention else "",
        )

    def _admit(self, state: Flow) -> bool:
        """Return True if an event may be logged; otherwise count it."""
        if self._events >= EVENTS_MAX:
            self._omitted[state.value] += 1
            return False
        self._events += 1
        return True


def _state_of(sink: Sink, subscription: Subscription) -> Flow:
    """Return the state of a subscription; dead letters that wait for a decision count as idle."""
    state = flow_of(subscription)
    return Flow.IDLE if state is Flow.NO_CONSUMER and is_dead_letter_sink(sink.name) else state


def _is_logged_by_control(before: Flow, state: Flow) -> bool:
    """Return True for the beginning and the end of a pause, which `SinkControl` logs when it is requested."""
    return state is Flow.PAUSED or (before is Flow.PAUSED and not state.needs_attention)
