"""The witness outside the broker: knows what publishers were promised and what consumers were given.

Publishers and consumers report from their threads; who kills the broker asks for checks against what the broker says
of itself. A consumer reports what it was given before it acks it, so at any moment everything that the broker may
count as settled is known here already.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from forebay.client import Durability, Gap, SettleOutcome, SettleResult, SinkStats
from tests.support.oracles.ledger import Ledger

STORIES_MAX: Final = 50
"""Violations that are described in words; all are counted."""


DEFAULT: Final = "default"
"""The subscription that is never sought."""


@dataclass(frozen=True, slots=True)
class Promise:
    """Known facts about a partition."""

    end: int
    """One more than the highest offset with a receipt."""

    acked: Mapping[str, int]
    """Records acked OK, by subscription."""


class Oracle:
    """Known facts about one sink. Thread-safe."""

    def __init__(
        self,
        sink: str,
        partitions: int,
        *,
        may_drop: bool | Collection[str],
        in_order: bool = True,
        sought: Collection[str] = (),
        may_lose_counts: bool = False,
    ) -> None:
        """``may_drop``: the reasons for which records may go, or whether they may for want of room.

        ``may_lose_counts`` if another machine may take over, which does not know how many records were only in memory.
        ``sought`` are subscriptions beside ``default`` that are moved at will.
        """
        reasons = ({"OVERFLOW"} if may_drop else ()) if isinstance(may_drop, bool) else may_drop
        self.sink: Final = sink
        self.may_drop: Final = bool(reasons)
        self._may_lose_counts = may_lose_counts
        self._reasons = frozenset(reasons) | {"PURGED"}
        self.violations: Counter[str] = Counter()
        self.stories: list[str] = []
        self._lock = threading.Lock()
        """Protects all of it."""
        self._by_subscription = {
            name: [
                Ledger(
                    f"{sink}/{partition}" if name == DEFAULT else f"{sink}/{partition}/{name}",
                    self._tell,
                    reasons=reasons,
                    in_order=in_order,
                    is_sought=name in sought,
                )
                for partition in range(partitions)
            ]
            for name in (DEFAULT, *sought)
        }
        self._ledgers = self._by_subscription[DEFAULT]
        self._unplaced = 0
        self._in_memory = 0
        """Records whose receipt said that only memory holds them."""

    # -- publishers

    def receipt(
        self,
        partition: int,
        first: int | None,
        records: Sequence[int],
        durability: Durability = Durability.DISK,
        *,
        duplicate: bool = False,
    ) -> None:
        """``records`` were acknowledged, in order, from ``first`` on; ``None`` when the broker forgot where."""
        with self._lock:
            if first is None:
                self._unplaced += len(records)
            else:
                written = durability is not Durability.MEMORY
                self._in_memory += len(records) * (not written)
                for ledgers in self._by_subscription.values():
                    ledgers[partition].receipt(first, records, written=written, duplicate=duplicate)

    # -- operators

    def purging(self, partition: int, end: int) -> None:
        """Record that a caller is about to purge what ends at or below ``end``."""
        with self._lock:
            for ledgers in self._by_subscription.values():
                ledgers[partition].purged_end = max(ledgers[partition].purged_end, end)

    def seeking(self, partition: int, offset: int, subscription: str) -> bytes:
        """Record that a caller is about to seek; pass the result to ``sought`` when the answer is lost."""
        with self._lock:
            return self._by_subscription[subscription][partition].seeking(offset)

    def sought(self, partition: int, offset: int, subscription: str, before: bytes | None = None) -> None:
        """Record that the subscription is at ``offset``; with ``before`` it is not known whether it is."""
        with self._lock:
            self._by_subscription[subscription][partition].sought(offset, before)

    # -- consumers

    def delivered(
        self,
        partition: int,
        owner_epoch: int,
        records: Sequence[tuple[int, int]],
        subscription: str = DEFAULT,
        durability: Durability = Durability.DISK,
    ) -> None:
        """A consumer was given (offset, record)s of one partition; called before it acks them."""
        if records:
            with self._lock:
                ledger = self._by_subscription[subscription][partition]
                ledger.delivered(owner_epoch, records, written=durability is not Durability.MEMORY)

    def gap(self, gap: Gap, subscription: str = DEFAULT) -> None:
        """Record a gap notice that a consumer received."""
        with self._lock:
            ledger = self._by_subscription[subscription][gap.partition]
            ledger.gap(gap.first_offset, gap.last_offset, gap.counts or {gap.reason: len(gap)})
            if gap.at_most and not self._may_lose_counts:
                self._tell("lost", f"{self.sink}: a kill was taken for a power loss: {gap}")

    def may_miss(self, gap: Gap) -> bool:
        """Return True if a gap is allowed, for any reader."""
        with self._lock:
            return self._ledgers[gap.partition].may_miss(gap.last_offset, gap.counts or {gap.reason})

    def acking(self, partition: int, ranges: Iterable[tuple[int, int]], subscription: str = DEFAULT) -> None:
        """A consumer is about to ack (first, last)s."""
        with self._lock:
            for first, last in ranges:
                self._by_subscription[subscription][partition].acking(first, last)

    def acked(self, owner_epoch: int, results: Iterable[SettleResult], subscription: str = DEFAULT) -> None:
        """The broker has answered an ack that was sent under ``owner_epoch``."""
        with self._lock:
            for one in results:
                # Where records may be dropped, what is settled already may have been dropped.
                ledger = self._by_subscription[subscription][one.partition]
                dropped = self.may_drop or ledger.is_sought or one.first_offset < ledger.purged_end
                again = one.outcome is SettleOutcome.ALREADY_SETTLED and not dropped
                if one.outcome is SettleOutcome.OK or again:
                    ledger.acked_ok(owner_epoch, one.first_offset, one.last_offset)
                elif one.outcome is SettleOutcome.UNKNOWN:
                    what = f"{self.sink}/{one.partition} offsets {one.first_offset} to {one.last_offset}"
                    self._tell("skipped", f"{what}: an ack of what was delivered was answered UNKNOWN")

    def replayed(self, partition: int, first: int, records: Sequence[int]) -> None:
        """A replay has read ``records`` from ``first`` on."""
        with self._lock:
            self._ledgers[partition].replayed(first, records)

    def fault(self, kind: str, story: str) -> None:
        """Record a violation that a caller has found."""
        with self._lock:
            self._tell(kind, f"{self.sink}: {story}")

    # -- checks

    def promises(self) -> list[Promise]:
        """Return the known facts by partition."""
        with self._lock:
            return [
                Promise(
                    ledger.receipts_end,
                    {name: ledgers[partition].acked for name, ledgers in self._by_subscription.items()},
                )
                for partition, ledger in enumerate(self._ledgers)
            ]

    def check(self, stats: SinkStats, promised: Sequence[Promise], *, all_told: bool = False) -> None:
        """Compare what the broker says with what was promised before it was asked.

        Where records may be dropped, what is settled is only checked when ``all_told``: a consumer may hear of a gap
        later.
        """
        check_settled = all_told or not self.may_drop
        with self._lock:
            if not stats.identity_ok:
                self._tell("identity_broken", f"{self.sink}: the broker says that an account does not balance")
            for mine, promise, log in zip(self._ledgers, promised, stats.partitions, strict=True):
                where = f"{self.sink}/{log.partition}"
                if log.next_offset < promise.end:
                    self._tell("lost", f"{where} ends at {log.next_offset}, and {promise.end} were acknowledged")
                if strange := {why: records for why, records in log.dropped.items() if why not in self._reasons}:
                    self._tell("lost", f"{where} counts as dropped {strange}")
                if check_settled:
                    mine.settled_below(log.earliest_offset, "the earliest offset")
            for name, account in ((found.name, one) for found in stats.subscriptions for one in found.partitions):
                where = f"{self.sink}/{account.partition}/{name}"
                end = stats.partitions[account.partition].next_offset
                settled = account.acked + account.dead_lettered + account.dropped + account.skipped
                if end - account.start_offset != settled + account.pending:
                    self._tell("identity_broken", f"{where}: {end} is not {settled} settled and {account.pending}")
                ledger = self._by_subscription[name][account.partition]
                if account.skipped or account.dead_lettered:
                    self._tell("skipped", f"{where}: {account.skipped} skipped, {account.dead_lettered} dead letters")
                was = promised[account.partition].acked[name]
                if account.lifetime.acked < was:
                    self._tell("acks_forgotten", f"{where}: {account.lifetime.acked} acked, and {was} were answered OK")
                if check_settled:
                    ledger.settled_below(account.watermark, "the watermark")

    def untold(self, stats: SinkStats) -> int:
        """Count the offsets that are neither delivered to a consumer nor reported to one as a gap yet."""
        with self._lock:
            return sum(
                ledgers[log.partition].untold(log.next_offset)
                for ledgers in self._by_subscription.values()
                for log in stats.partitions
            )

    def check_drops(self, stats: SinkStats) -> int:
        """At the end, everything settled: what was never acked was dropped, and counted. Returns the count."""
        default = next(found for found in stats.subscriptions if found.name == DEFAULT)
        dropped = sum(one.dropped for one in default.partitions)
        counted = sum(sum(log.dropped.values()) for log in stats.partitions)
        with self._lock:
            never = sum(ledger.never_acked() for ledger in self._ledgers)
            told = sum(ledger.told_as_gaps() for ledger in self._ledgers)
            if dropped > told:
                self._tell("identity_broken", f"{self.sink}: {dropped} count as dropped, and {told} were told as gaps")
            if never > dropped:
                self._tell("skipped", f"{self.sink}: {never} were never acked, and only {dropped} count as dropped")
            if dropped > counted:
                self._tell("identity_broken", f"{self.sink}: {dropped} dropped unsettled of {counted} dropped in all")
        return dropped

    def close(self) -> dict[str, int]:
        """Check the whole at the end; returns the totals."""
        with self._lock:
            everything = [ledger for ledgers in self._by_subscription.values() for ledger in ledgers]
            counts = [ledger.close() for ledger in everything][: len(self._ledgers)]
            return {
                "acknowledged": sum(found[0] for found in counts) + self._unplaced,
                "delivered": sum(found[1] for found in counts),
                "gaps": sum(found[2] for found in counts),
                "redelivered": sum(ledger.redelivered for ledger in everything),
                "in_memory": self._in_memory,
                "doubled": sum(ledger.doubled for ledger in self._ledgers),
            }

    def _tell(self, kind: str, story: str) -> None:
        self.violations[kind] += 1
        if len(self.stories) < STORIES_MAX:
            self.stories.append(f"{kind}: {story}")
