"""Transfer of rejected records to the dead-letter sink, atomic with their settlement.

Records are held from the moment that they are rejected. A worker per partition moves them (see ``appender``). The
cursor moves when the group with their page is cut, so that no earlier write can include it. Records that cannot be
moved return to delivery.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from forebay.broker.core.dead_letters.breaker import Breaker
from forebay.broker.core.dead_letters.letters import RejectionReason, is_dead_letter_sink
from forebay.broker.core.delivery import answers as core
from forebay.broker.core.delivery.answers import joined
from forebay.broker.core.delivery.lane import Answer, SettleOutcome
from forebay.broker.core.errors import (
    BrokerError,
    BrokerFull,
    Draining,
    MemoryOverloaded,
    ReadFailed,
    RecordTooLarge,
    RowsNotDecodable,
    SinkFull,
    SinkNotFound,
    StorageFull,
    StoreFenced,
    SubscriptionNotFound,
    TooManySinks,
)
from forebay.broker.core.partition.ranges import Range, are_apart, common, union
from forebay.broker.runtime.commit.committer import Committer
from forebay.broker.runtime.dead_letters.appender import Appended, Appender
from forebay.broker.runtime.dead_letters.batch import Request
from forebay.broker.runtime.delivery.accounts import Accounts
from forebay.broker.runtime.delivery.lanes import Lanes
from forebay.broker.runtime.delivery.ownership import Ownership
from forebay.broker.runtime.resources.supervision import Supervisor, detached
from forebay.state.numbers import counted

_log: Final = logging.getLogger(__name__)
Results = tuple[tuple[int, Range, SettleOutcome], ...]


class DeadLetterMover:
    """Rejected records of one subscription."""

    def __init__(
        self,
        lanes: Lanes,
        accounts: Accounts,
        owners: Ownership,
        breaker: Breaker,
        appender: Appender,
        *,
        committer: Committer,
        supervisor: Supervisor,
        pause: Callable[[str], object],
    ) -> None:
        """``pause`` pauses the sink for a reason."""
        self.breaker = breaker
        self._lanes = lanes
        self._sink = lanes.sink
        self._accounts = accounts
        self._owners = owners
        self._appender = appender
        self._committer = committer
        self._supervisor = supervisor
        self._pause = pause
        self._waiting: dict[int, list[Request]] = {}
        self._workers: dict[int, asyncio.Task[None]] = {}
        self._closing = False

    def close(self) -> None:
        """End the workers; queued pages continue."""
        self._closing = True
        for worker in self._workers.values():
            worker.cancel()
        for requests in self._waiting.values():  # a worker that has not started never sees them
            _end(requests, self._closed())
        self._waiting.clear()
        self._committer.committed.fire()  # answers that wait for records in transfer

    def _closed(self) -> BrokerError:
        if self._committer.fenced is not None:
            return self._committer.fenced
        if self._sink.deleted:
            return SinkNotFound(self._sink.name)
        return SubscriptionNotFound(self._sink.name, self._lanes.name) if self._lanes.deleted else Draining()

    # -- rejection

    @property
    def enabled(self) -> bool:
        """True if rejected records have a dead-letter sink."""
        return self._sink.settings.dlq

    @property
    def is_last(self) -> bool:
        """True for a dead-letter sink itself: its rejected records are retried."""
        return is_dead_letter_sink(self._sink.name)

    def reject(self, partition: int, answer: Answer, ranges: Sequence[Range], reason: str) -> Awaitable[Results]:
        """Move records that a consumer has in flight; the result is available when the batch is durable."""
        lane = self._lanes.checked(partition)
        results: list[tuple[int, Range, SettleOutcome]] = []
        taken: list[Range] = []
        for some in [ranges] if are_apart(ranges) else [[requested] for requested in ranges]:
            found = self._rejected([each for requested in some for each in joined(lane.judge(answer, requested))])
            held = [part for part, outcome in found if outcome is SettleOutcome.OK]
            self._begin_transfer(partition, held, answered=True)
            taken += held
            results += [(partition, part, outcome) for part, outcome in found]
        self._open_breaker()
        requests = [self._hold(partition, taken, RejectionReason.REJECTED, reason)] if taken else []
        if requests:
            self._owners.balance_if_idle(partition)
            self._owners.wake(partition)
        return detached(self._answer(partition, tuple(results), requests))

    def _rejected(self, judged: core.Results) -> core.Results:
        """Return the outcomes of rejections: OK as far as the breaker admits records."""
        found: core.Results = []
        for part, outcome in judged:
            if outcome is not SettleOutcome.OK:
                found.append((part, outcome))
                continue
            held = Range(part.first, part.first + self._judge(part.size))
            if held.size:
                found.append((held, SettleOutcome.OK))
            if held.end < part.end:
                found.append((Range(held.end, part.end), SettleOutcome.STALE))
        return found

    def failed(self, partition: int, kind: str, why: str) -> None:
        """Write attempts that failed without an answer, and dead-letter exhausted records."""
        self._accounts.save(partition)
        self._accounts.failed(kind)
        self.move_exhausted(partition, why)
        self._owners.wake(partition)

    def move_exhausted(self, partition: int, error: str) -> None:
        """Dead-letter records whose last attempt has failed."""
        lane = self._lanes[partition]
        if self.is_last or self._lanes.deleted:
            return
        taken: list[Range] = []
        for offset in lane.exhausted():
            if not self.enabled:
                tries = lane.cursor.attempts_of(offset)
                place = f"partition {partition}, offset {offset}"
                self._pause(f"REJECTED_BY_TARGET: {place}: it has failed {counted(tries, 'time')}: {error}")
                return
            if self._judge(1):
                taken.append(Range(offset, offset + 1))
        if taken:
            self._begin_transfer(partition, taken, answered=False)
            self._hold(partition, taken, RejectionReason.MAX_ATTEMPTS, error)
            self._owners.wake(partition)
        self._open_breaker()

    def _judge(self, records: int) -> int:
        settings = self._sink.settings
        return self.breaker.rejected(
            records, ratio_max=settings.dlq_ratio_max, consecutive_max=settings.dlq_consecutive_max
        )

    def _open_breaker(self) -> None:
        if self.breaker.opened and self._sink.record.paused is None:
            self._pause(f"DLQ_BREAKER: {self.breaker.opened}")

    def _begin_transfer(self, partition: int, parts: Sequence[Range], *, answered: bool) -> None:
        end = self._lanes.log(partition).tail.next_offset
        self._lanes[partition].begin_transfer(parts, self._lanes.now(), end, answered=answered)

    def _hold(self, partition: int, parts: Sequence[Range], reason: RejectionReason, error: str) -> Request:
        """Queue held records for the worker."""
        lane = self._lanes[partition]
        request = Request(
            parts=parts,
            reason=reason,
            error=error,
            attempts=dict(lane.cursor.attempts_within(parts)),
            tried=int(reason is RejectionReason.REJECTED),
            at_us=self._sink.clock.wall_us(),
            done=asyncio.get_running_loop().create_future(),
        )
        self._waiting.setdefault(partition, []).append(request)
        if partition not in self._workers:
            name = f"forebay-dead-letters-{self._sink.name}-{partition}"
            worker = asyncio.get_running_loop().create_task(self._work(partition), name=name)
            worker.add_done_callback(self._worker_ended)
            self._workers[partition] = worker
        return request

    def _worker_ended(self, worker: asyncio.Task[None]) -> None:
        if not worker.cancelled() and (error := worker.exception()) is not None:
            _log.error("dead-letter worker failed sink=%s", self._sink.name, exc_info=error)
            self._supervisor.note(f"dead letters of {self._sink.name}", error)

    async def _answer(self, partition: int, results: Results, requests: Sequence[Request]) -> Results:
        for request in requests:
            await asyncio.wait([request.done])
            request.done.result()
        moved = union(*(request.moved for request in requests))
        found: list[tuple[int, Range, SettleOutcome]] = []
        for _, part, outcome in results:
            if outcome is SettleOutcome.OK:
                found += [(partition, *each) for each in self._outcomes(partition, part, moved)]
            else:
                found.append((partition, part, outcome))
        return await self.join(partition, tuple(found))

    def _outcomes(self, partition: int, part: Range, moved: Sequence[Range]) -> list[tuple[Range, SettleOutcome]]:
        """Return the outcomes of held records."""
        cursor = self._lanes[partition].cursor
        found: list[tuple[Range, SettleOutcome]] = []
        at = part.first
        for here in [*common(moved, part), Range(part.end, part.end)]:
            for left in cursor.unsettled(Range(at, here.first)):
                if left.first > at:
                    found.append((Range(at, left.first), SettleOutcome.ALREADY_SETTLED))
                found.append((left, SettleOutcome.STALE))
                at = left.end
            if at < here.first:
                found.append((Range(at, here.first), SettleOutcome.ALREADY_SETTLED))
            if here.size:
                found.append((here, SettleOutcome.OK))
            at = here.end
        return joined(found)

    async def join(self, partition: int, results: Results) -> Results:
        """Delay an answer about records in transfer until their outcome is known."""
        lane, committer = self._lanes[partition], self._committer
        moving = {
            part
            for _, part, outcome in results
            if outcome is SettleOutcome.ALREADY_SETTLED and lane.transfers.within(part)
        }
        if not moving:
            return results
        moment = committer.committed.next()
        while any(lane.transfers.within(part) for part in moving) and not self._sink.deleted:
            if committer.fenced is not None:
                raise committer.fenced
            if self._lanes.deleted:
                raise self._closed()
            await moment.wait()
            moment = committer.committed.next()
        return tuple(
            (p, part, _settled_or_stale(lane.cursor.is_settled(part.first)) if part in moving else outcome)
            for p, part, outcome in results
        )

    # -- transfer

    async def _work(self, partition: int) -> None:
        """Move queued records until none is left."""
        requests: list[Request] = []
        try:
            while requests := self._waiting.pop(partition, []):
                await self._move_all(partition, requests)
                for request in requests:
                    request.done.set_result(None)
        except StoreFenced:
            _log.error("dead letters were not moved sink=%s partition=%d", self._sink.name, partition)
        finally:
            del self._workers[partition]
            unfinished = [*requests, *self._waiting.pop(partition, [])]
            if self._closing or self._sink.deleted or self._committer.fenced is not None:
                _end(unfinished, self._closed())
            else:  # an internal error must not hold back any record
                self._give_back(partition, unfinished, None, "the dead-letter worker failed")
                for request in unfinished:
                    request.done.set_result(None)

    async def _move_all(self, partition: int, requests: list[Request]) -> None:
        appends: list[Appended] = []
        try:
            while await self._appender.append(partition, requests, appends) and not self._sink.deleted:
                pass  # some were withdrawn: examine the others of their page again
        except (SinkFull, RecordTooLarge, TooManySinks) as full:
            self._give_back(partition, requests, 0.0, str(full))
            self._pause(f"DLQ_FULL: {full}")
        except RowsNotDecodable as missing:  # whole pages as dead letters could never be redriven
            self._give_back(partition, requests, 0.0, str(missing))
            self._pause(f"ROWS_NOT_DECODABLE: {missing}")
        except (StorageFull, BrokerFull, MemoryOverloaded) as full:
            self._give_back(partition, requests, None, str(full))
        except (ReadFailed, StoreFenced) as damage:
            if self._committer.fenced is not None:
                raise
            _log.error("page of a dead letter was not read sink=%s cause=%s", self._sink.name, damage)
            self._give_back(partition, requests, None, f"its page could not be read: {damage}")
        for page, target, append in appends:
            await append.done
            self._appender.keep_bodies(partition, page, target, append)
            for request in requests:
                request.moved += page.ranges
        self._give_back(partition, requests, None, "its page does not exist any more")

    def _give_back(self, partition: int, requests: Sequence[Request], delay_s: float | None, reason: str) -> None:
        lane = self._lanes[partition]
        parts = [part for request in requests for part in request.parts]
        rejected = [part for request in requests if request.tried for part in request.parts]
        random = self._sink.clock.random()
        revocation = lane.fail_transfer(
            parts, self._lanes.now(), rejected=rejected, delay_s=delay_s, random=random, reason=reason
        )
        if revocation is not None:
            self._accounts.save(partition)
            self._owners.notify(partition, revocation)
            if rejected:
                self._accounts.failed("nack")


def _end(requests: Sequence[Request], why: BrokerError) -> None:
    for request in requests:
        if not request.done.done():
            request.done.set_exception(why)
            request.done.exception()  # retrieved: the caller may be gone


def _settled_or_stale(settled: bool) -> SettleOutcome:
    return SettleOutcome.ALREADY_SETTLED if settled else SettleOutcome.STALE
