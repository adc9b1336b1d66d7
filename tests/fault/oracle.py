"""The witness outside the broker: knows what publishers were promised and what consumers were given.

Publishers and consumers report from their threads; who kills the broker asks for checks against what the broker says
of itself. A consumer reports what it was given before it acks it, so at any moment everything that the broker may
count as settled is known here already.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from holdfast.client import Gap, SettleOutcome, SettleResult, SinkStats
from tests.fault.ledger import Ledger

STORIES_MAX: Final = 50
"""Violations told in words; all are counted."""


class Oracle:
    """What is known of one sink. Safe for threads."""

    def __init__(self, sink: str, partitions: int, *, may_drop: bool) -> None:
        self.sink: Final = sink
        self.may_drop: Final = may_drop
        self.violations: Counter[str] = Counter()
        self.stories: list[str] = []
        self._lock = threading.Lock()
        """Protects all of it."""
        self._ledgers = [
            Ledger(f"{sink}/{partition}", self._tell, may_drop=may_drop) for partition in range(partitions)
        ]
        self._unplaced = 0

    # -- publishers

    def receipt(self, partition: int, first: int | None, records: Sequence[int]) -> None:
        """``records`` were acknowledged, in order, from ``first`` on; ``None`` when the broker forgot where."""
        with self._lock:
            if first is None:
                self._unplaced += len(records)
            else:
                self._ledgers[partition].receipt(first, records)

    # -- consumers

    def delivered(self, partition: int, owner_epoch: int, records: Sequence[tuple[int, int]]) -> None:
        """A consumer was given (offset, record)s of one partition; called before it acks them."""
        if records:
            with self._lock:
                self._ledgers[partition].delivered(owner_epoch, records)

    def gap(self, gap: Gap) -> None:
        """A consumer was told of a gap."""
        with self._lock:
            self._ledgers[gap.partition].gap(gap.first_offset, gap.last_offset)

    def acking(self, partition: int, ranges: Iterable[tuple[int, int]]) -> None:
        """A consumer is about to ack (first, last)s."""
        with self._lock:
            for first, last in ranges:
                self._ledgers[partition].acking(first, last)

    def acked(self, owner_epoch: int, results: Iterable[SettleResult]) -> None:
        """The broker has answered an ack that was sent under ``owner_epoch``."""
        with self._lock:
            for one in results:
                # Where records may be dropped, what is settled already may have been dropped.
                again = one.outcome is SettleOutcome.ALREADY_SETTLED and not self.may_drop
                if one.outcome is SettleOutcome.OK or again:
                    self._ledgers[one.partition].acked_ok(owner_epoch, one.first_offset, one.last_offset)
                elif one.outcome is SettleOutcome.UNKNOWN:
                    what = f"{self.sink}/{one.partition} offsets {one.first_offset} to {one.last_offset}"
                    self._tell("skipped", f"{what}: an ack of what was delivered was answered UNKNOWN")

    def replayed(self, partition: int, first: int, records: Sequence[int]) -> None:
        """A replay has read ``records`` from ``first`` on."""
        with self._lock:
            self._ledgers[partition].replayed(first, records)

    def fault(self, kind: str, story: str) -> None:
        """Somebody saw what must not be."""
        with self._lock:
            self._tell(kind, f"{self.sink}: {story}")

    # -- checks

    def promises(self) -> list[tuple[int, int]]:
        """What holds by now, per partition: one more than the highest receipt, and records acked OK."""
        with self._lock:
            return [(ledger.receipts_end, ledger.acked) for ledger in self._ledgers]

    def check(self, stats: SinkStats, promised: list[tuple[int, int]], *, all_told: bool = False) -> None:
        """Compare what the broker says with what was promised before it was asked.

        Where records may be dropped, what is settled is only checked when ``all_told``: a consumer may hear of a gap
        later.
        """
        check_settled = all_told or not self.may_drop
        with self._lock:
            if not stats.identity_ok:
                self._tell("identity_broken", f"{self.sink}: the broker says that an account does not balance")
            for mine, (receipts_end, _), log in zip(self._ledgers, promised, stats.partitions, strict=True):
                where = f"{self.sink}/{log.partition}"
                if log.next_offset < receipts_end:
                    self._tell("lost", f"{where} ends at {log.next_offset}, and {receipts_end} were acknowledged")
                if check_settled:
                    mine.settled_below(log.earliest_offset, "the earliest offset")
            for account in (one for found in stats.subscriptions for one in found.partitions):
                where = f"{self.sink}/{account.partition}"
                end = stats.partitions[account.partition].next_offset
                settled = account.acked + account.dead_lettered + account.dropped + account.skipped
                if end - account.start_offset != settled + account.pending:
                    self._tell("identity_broken", f"{where}: {end} is not {settled} settled and {account.pending}")
                if account.skipped or account.dead_lettered:
                    self._tell("skipped", f"{where}: {account.skipped} skipped, {account.dead_lettered} dead letters")
                if account.acked < promised[account.partition][1]:
                    was = promised[account.partition][1]
                    self._tell("acks_forgotten", f"{where}: {account.acked} acked, and {was} were answered OK")
                if check_settled:
                    self._ledgers[account.partition].settled_below(account.watermark, "the watermark")

    def untold(self, stats: SinkStats) -> int:
        """Offsets that no consumer was given or told of yet."""
        with self._lock:
            return sum(log.next_offset - self._ledgers[log.partition].frontier for log in stats.partitions)

    def check_drops(self, stats: SinkStats) -> int:
        """At the end, everything settled: what was never acked was dropped, and counted. Returns the count."""
        dropped = sum(one.dropped for found in stats.subscriptions for one in found.partitions)
        counted = sum(sum(log.dropped.values()) for log in stats.partitions)
        with self._lock:
            never = sum(ledger.never_acked() for ledger in self._ledgers)
            if never > dropped:
                self._tell("skipped", f"{self.sink}: {never} were never acked, and only {dropped} count as dropped")
            if dropped > counted:
                self._tell("identity_broken", f"{self.sink}: {dropped} dropped unsettled of {counted} dropped in all")
        return dropped

    def close(self) -> dict[str, int]:
        """Check the whole at the end; returns the totals."""
        with self._lock:
            counts = [ledger.close() for ledger in self._ledgers]
            return {
                "acknowledged": sum(found[0] for found in counts) + self._unplaced,
                "delivered": sum(found[1] for found in counts),
                "gaps": sum(found[2] for found in counts),
                "redelivered": sum(ledger.redelivered for ledger in self._ledgers),
            }

    def _tell(self, kind: str, story: str) -> None:
        self.violations[kind] += 1
        if len(self.stories) < STORIES_MAX:
            self.stories.append(f"{kind}: {story}")
