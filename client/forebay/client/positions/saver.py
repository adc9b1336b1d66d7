"""Saves of the positions of one consumer: ownership, writes on schedule, retries, and fencing.

The positions belong to the thread of the consumer; the writes happen on a thread of their own, so that a slow store
does not stop the consumer. A partition is taken over by a write that raises its owner epoch: from then on the writes of
the consumer before it fail, because its expected version is gone.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import itemgetter
from typing import Final

from forebay.client.errors import (
    ClientFault,
    Closed,
    ForebayError,
    PositionConflict,
    PositionFenced,
    PositionStoreUnavailable,
)
from forebay.client.positions.position import FORMER_CONSUMERS_MAX, PositionKey, SavedPosition
from forebay.client.positions.schedule import Due, SaveSchedule
from forebay.client.positions.store import PositionStore
from forebay.client.positions.telemetry import SaveTelemetry
from forebay.client.settings import RetryPolicy
from forebay.client.transport.retry import RetryState
from forebay.client.transport.threads import GuardedThread
from forebay.errors.reasons import Reason
from forebay.state.numbers import plural

FAILURE_LOG_S: Final = 10.0
"""Least time between two warnings about failed saves of one consumer."""

TAKE_OVER_TRIES: Final = 10
"""Attempts of a consumer to take a partition over while others do the same."""

_log: Final = logging.getLogger(__name__)

BACKOFF: Final = RetryPolicy(tries_max=None, delay_min_s=0.1, delay_max_s=30.0, budget_s=None)
"""Delays between failed saves; unlimited, because a failed save does not stop the consumer."""


@dataclass(frozen=True, slots=True)
class SaveStatistics:
    """Account of the saves of one consumer."""

    saved: int = 0
    """Completed saves."""

    failed: int = 0
    """Failed attempts."""

    failed_in_a_row: int = 0
    """Failed attempts since the last save, of the partition with the most."""

    last_error: str = ""
    """Message of that partition's last failure; empty if the last attempt of every partition succeeded."""


@dataclass(slots=True)
class _Held:
    """One partition that this consumer owns."""

    key: PositionKey
    incarnation: str
    epoch: int
    former: tuple[str, ...]
    """Owners that were replaced, the latest first."""

    version: str
    """Version in the store. Changed by the thread only."""

    replaced: SavedPosition | None
    """Position that the takeover replaced."""

    due: Due
    position: int
    """Latest position; the one in the store is ``due.saved``."""

    retry: RetryState
    retry_at: float = 0.0
    failed_in_a_row: int = 0
    last_error: str = ""
    requested: int = 0
    """Position whose save was requested: until it is saved, a save does not wait for the schedule."""

    fenced: PositionFenced | None = None


class PositionSaver:
    """Saves of one consumer. Its methods are safe for use from several threads."""

    def __init__(
        self,
        store: PositionStore,
        *,
        owner: str,
        schedule: SaveSchedule,
        telemetry: SaveTelemetry | None = None,
        on_saved: Callable[[int, int], None] = lambda partition, position: None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        uniform: Callable[[], float] = random.random,
    ) -> None:
        self._store = store
        self._owner = owner
        self._schedule = schedule
        self._telemetry = telemetry
        self._on_saved = on_saved
        """Called after each durable write; what it raises is a failed save, which is tried again."""
        self._clock = clock
        self._wall = wall
        self._uniform = uniform
        self._changed = threading.Condition()
        """Protects everything below. Waited for by the thread, and by callers of ``save``."""
        self._held: dict[int, _Held] = {}
        self._saved = self._failed = 0
        """Completed saves, and failed attempts."""
        self._warned_at: float | None = None
        """Time of the last warning about a failed save."""
        self._is_warned = False
        """A warning was logged since the last completed save."""
        self._closing = False
        """The close has begun: a save that others wait for is given up."""
        self._ended = False
        """The thread ends."""
        self._fault: ClientFault | None = None
        self._storing = threading.Lock()
        """Held during each use of the store, which serves one thread at a time."""
        self._thread = GuardedThread(self._run, name="forebay-positions", on_fault=self._end)
        self._is_started = False

    @property
    def statistics(self) -> SaveStatistics:
        """Account of the saves so far."""
        with self._changed:
            return self._account()

    def _account(self) -> SaveStatistics:
        worst = max(self._held.values(), key=lambda held: held.failed_in_a_row, default=None)
        if worst is None:
            return SaveStatistics(self._saved, self._failed)
        return SaveStatistics(self._saved, self._failed, worst.failed_in_a_row, worst.last_error)

    def saved(self) -> Mapping[int, int]:
        """Return the saved position of each owned partition."""
        with self._changed:
            return {partition: held.due.saved for partition, held in self._held.items()}

    # -- ownership

    def read(self, key: PositionKey) -> tuple[SavedPosition | None, str | None]:
        """Return the saved position of a partition and its version; both None if there is none."""
        with self._storing:
            found = self._store.read(str(key))
        if found is None:
            return None, None
        return SavedPosition.decode(str(key), found.document), found.version

    def take_over(
        self, key: PositionKey, saved: SavedPosition | None, version: str | None, *, incarnation: str, start: int
    ) -> None:
        """Take a partition over at ``start``: fences the owner before, durably.

        Raises ``PositionConflict`` if the position changed since it was read, and ``PositionStoreUnavailable``.
        """
        epoch = saved.epoch + 1 if saved is not None else 1
        former = saved.replaced_by(self._owner, FORMER_CONSUMERS_MAX) if saved is not None else ()
        position = SavedPosition(incarnation, start, epoch, self._owner, self._wall(), former)
        written = self._write(key, position, version, replaced=None)
        now = self._clock()
        with self._changed:
            self._held[key.partition] = _Held(
                *(key, incarnation, epoch, former, written, saved, Due(now, start), start),
                retry=RetryState(BACKOFF, self._uniform),
            )
            if not self._is_started:
                self._is_started = True
                self._thread.start()

    def _write(
        self, key: PositionKey, position: SavedPosition, expected: str | None, *, replaced: SavedPosition | None
    ) -> str:
        """Write a position; resolves a conflict with an own write whose answer was lost.

        A position of an owner that was replaced is there again only if the store was restored from a backup: it is
        replaced. Another one is that of a consumer that began after a deletion or a restore, with an epoch that counts
        from below: it fences this one. See ``_is_restored``.
        """
        document = position.encode()
        with self._storing:
            try:
                return self._store.compare_and_write(str(key), document, expected)
            except PositionConflict:
                found = self._store.read(str(key))
                if found is None:
                    raise
                stored = SavedPosition.decode(str(key), found.document)
                is_restored = replaced is not None and _is_restored(stored, position, replaced)
                if not _is_of(position, stored) and not is_restored:
                    raise
                if _is_of(position, stored) and stored.offset == position.offset:
                    return found.version
                return self._store.compare_and_write(str(key), document, found.version)

    # -- saves

    def moved(self, partition: int, position: int) -> None:
        """Note the position of a partition; it is saved on schedule. A lower position has no effect.

        Raises ``PositionFenced`` if another consumer took the partition over.
        """
        with self._changed:
            held = self._held[partition]
            if held.fenced is not None:
                raise held.fenced
            if position > held.position:
                held.position = position
                held.due.moved(self._clock())
                self._changed.notify_all()

    def check(self, failures_max: int | None) -> None:
        """Raise what ended the consumer.

        ``PositionFenced`` after another consumer took over; ``PositionStoreUnavailable`` after more than
        ``failures_max`` failures in a row.
        """
        with self._changed:
            self._check(failures_max)

    def _check(self, failures_max: int | None) -> None:
        if self._fault is not None:
            raise self._fault
        for held in self._held.values():
            if held.fenced is not None:
                raise held.fenced
        found = self._account()
        if failures_max is not None and found.failed_in_a_row > failures_max:
            failed = f"{found.failed_in_a_row} {plural(found.failed_in_a_row, 'save')}"
            raise PositionStoreUnavailable(
                f"{failed} in a row failed, save_failures_max is {failures_max}: {found.last_error}",
                facts={"failures": str(found.failed_in_a_row), "save_failures_max": str(failures_max)},
            )

    def save(self, failures_max: int | None = None, timeout_s: float | None = None) -> None:
        """Save all positions now; returns when they are durable.

        The first attempt does not wait for the delay after earlier failures. Raises as ``try_save``, and
        ``PositionStoreUnavailable`` after ``timeout_s``.
        """
        with self._changed:
            is_saved = self._await_saved(failures_max, timeout_s, skips_delay=True)
        if not is_saved:
            raise self._not_saved(timeout_s)

    def try_save(self, failures_max: int | None = None, timeout_s: float | None = None) -> bool:
        """Save all positions now; returns True when they are durable, and False after ``timeout_s``.

        After False they are saved in the background. After failures the next attempt waits for its delay, so that
        repeated calls do not load the store. Raises as ``check``, and ``Closed`` as soon as another thread closes the
        saver.
        """
        with self._changed:
            return self._await_saved(failures_max, timeout_s)

    def _await_saved(
        self, failures_max: int | None, timeout_s: float | None, *, closes: bool = False, skips_delay: bool = False
    ) -> bool:
        """Request a save of all positions and wait for it. Under the condition.

        ``skips_delay`` makes the next attempt at once, and begins again with short delays: a store that has recovered
        is not left alone for what remains of a long one.
        """
        ends_at = None if timeout_s is None else self._clock() + timeout_s
        wanted = {partition: held.position for partition, held in self._held.items()}
        for held in self._held.values():
            held.requested = held.position
            if skips_delay:
                held.retry_at = 0.0
                held.retry = RetryState(BACKOFF, self._uniform)
        self._changed.notify_all()
        while any(self._held[partition].due.saved < position for partition, position in wanted.items()):
            self._check(failures_max)
            if self._closing and not closes:
                raise Closed(
                    "the consumer was closed before its position was saved: open a new one",
                    reason=Reason.SUBSCRIBER_CLOSED,
                )
            left = None if ends_at is None else ends_at - self._clock()
            if left is not None and left <= 0:
                return False
            self._changed.wait(left)
        return True

    def _not_saved(self, timeout_s: float | None) -> PositionStoreUnavailable:
        with self._changed:
            why = self._account().last_error or "no answer"
        return PositionStoreUnavailable(f"the positions were not saved within {timeout_s:g} s: {why}")

    def close(self, timeout_s: float, *, discard: bool = False) -> None:
        """Save all positions, then end the thread. Idempotent.

        ``discard`` saves nothing: for positions above records that were not handed out. Other threads that wait for a
        save get ``Closed`` at once. Raises as ``save``; the thread ends all the same, at the latest with its use of the
        store. Save and end together take no longer than ``timeout_s``.
        """
        ends_at = self._clock() + timeout_s
        try:
            with self._changed:
                is_first = self._is_started and not self._closing
                self._closing = True
                if discard:
                    for held in self._held.values():
                        held.position = held.due.saved
                self._changed.notify_all()
                if is_first and discard:
                    self._check(None)
                is_saved = not is_first or self._await_saved(None, timeout_s, closes=True, skips_delay=True)
            if not is_saved:
                raise self._not_saved(timeout_s)
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()
            if self._is_started:
                self._thread.join(max(0.0, ends_at - self._clock()))

    # -- the thread

    def _run(self) -> None:
        while True:
            with self._changed:
                while (held := self._next_due()) is None:
                    if self._ended:
                        return
                    self._changed.wait(self._wait_s())
                position = held.position
            self._save(held, position)

    def _end(self, fault: ClientFault) -> None:
        """Report a failure that is no error of a store to the threads of the consumer."""
        with self._changed:
            self._fault = fault
            self._changed.notify_all()

    def _due_at(self, held: _Held) -> float | None:
        """Return the time of the next save of a partition, in the past for one that was requested."""
        if held.fenced is not None or held.position <= held.due.saved:
            return None
        is_requested = held.due.saved < held.requested
        at = held.retry_at if is_requested else held.due.at(self._schedule, held.position)
        return at if at is None else max(at, held.retry_at)

    def _next_due(self) -> _Held | None:
        now = self._clock()
        due = [(at, held) for held in self._held.values() if (at := self._due_at(held)) is not None and at <= now]
        return min(due, key=itemgetter(0), default=(0.0, None))[1]

    def _wait_s(self) -> float | None:
        times = [at for held in self._held.values() if (at := self._due_at(held)) is not None]
        return max(0.0, min(times) - self._clock()) if times else None

    def _save(self, held: _Held, position: int) -> None:
        document = SavedPosition(held.incarnation, position, held.epoch, self._owner, self._wall(), held.former)
        error: ForebayError | None = None
        try:
            held.version = self._write(held.key, document, held.version, replaced=held.replaced)
            self._on_saved(held.key.partition, position)
        except PositionConflict as conflict:
            error = _fenced(held, conflict)
        except ForebayError as failure:
            error = failure
        now = self._clock()
        with self._changed:
            if error is None:
                held.due.save(position, held.position, now)
                held.retry_at = 0.0
                held.retry.succeeded()
                failures, held.failed_in_a_row, held.last_error = held.failed_in_a_row, 0, ""
                self._saved += 1
                self._log_saved(held.key, failures)
            elif isinstance(error, PositionFenced):
                held.fenced = error
            else:
                retry_in_s = held.retry.failed(now, error.retry_after_s) or BACKOFF.delay_max_s
                held.retry_at = now + retry_in_s
                self._failed += 1
                held.failed_in_a_row += 1
                held.last_error = f"{type(error).__name__}: {error}"
                self._log_failed(held, error, retry_in_s, now)
            unsaved = [each.due.saved_at for each in self._held.values() if each.position > each.due.saved]
            age_s = now - min(unsaved, default=now)
            lag = sum(each.position - each.due.saved for each in self._held.values())
            self._changed.notify_all()
        if self._telemetry is not None:
            if error is None:
                self._telemetry.saved(age_s, lag)
            else:
                self._telemetry.failed(error, age_s, lag)

    def _log_failed(self, held: _Held, error: ForebayError, retry_in_s: float, now: float) -> None:
        """Log a failed save, at most one in ``FAILURE_LOG_S``. Under the condition."""
        if self._warned_at is not None and now - self._warned_at < FAILURE_LOG_S:
            return
        self._warned_at, self._is_warned = now, True
        key = held.key
        _log.warning(
            "position was not saved sink=%s consumer=%s partition=%d failures=%d reason=%s retry_in_s=%.2f: %s",
            *(key.sink, key.consumer, key.partition, held.failed_in_a_row, error.reason, retry_in_s, error),
        )

    def _log_saved(self, key: PositionKey, failures: int) -> None:
        """Log the first completed save after a warning, once no partition fails. Under the condition."""
        if self._is_warned and not any(held.failed_in_a_row for held in self._held.values()):
            self._is_warned = False
            _log.warning(
                "positions are saved again sink=%s consumer=%s failures=%d",
                *(key.sink, key.consumer, failures),
            )


def _is_of(position: SavedPosition, stored: SavedPosition) -> bool:
    """Return whether a stored position was written by the owner of ``position``, in the same epoch."""
    own = (position.owner, position.epoch, position.incarnation)
    return (stored.owner, stored.epoch, stored.incarnation) == own


def _is_restored(stored: SavedPosition, position: SavedPosition, replaced: SavedPosition) -> bool:
    """Return whether ``stored`` was written before ``position``, which replaced ``replaced``.

    Owners decide, as clocks of several hosts differ. Only of an epoch whose owner ``position`` does not name, because
    it is too long ago or an earlier version wrote it, the position counts as an earlier one unless it is younger.
    """
    if stored.epoch >= position.epoch:
        return False
    if stored.owner in {position.owner, *position.former}:
        return True
    is_named = stored.epoch >= position.epoch - len(position.former)
    return not is_named and stored.saved_at <= replaced.saved_at


def _fenced(held: _Held, conflict: PositionConflict) -> PositionFenced:
    fenced = PositionFenced(
        f"another consumer named {held.key.consumer!r} took over partition {held.key.partition} of {held.key.sink!r}, "
        "or its saved position was deleted or lost with its store",
        facts={"partition": str(held.key.partition), "consumer": held.key.consumer, "epoch": str(held.epoch)},
    )
    fenced.__cause__ = conflict
    return fenced
