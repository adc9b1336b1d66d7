"""Compares what the source produced with what the target has.

Pure: it gets ids, arrivals and the broker's account, and decides. It trusts neither Spark nor the broker
about the records themselves; the broker's own counters are only used to check that its account balances and
agrees with the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Arrival:
    """One stored row of the target's table, in the order in which rows were first stored."""

    partition: int
    """Partition of the sink that it came from."""

    offset: int
    """Its offset there."""

    record_id: str
    """The id that the source gave it."""

    times: int
    """How often the target received it; all but the first were recognised by the idempotency key."""


@dataclass(frozen=True, slots=True)
class Account:
    """The broker's account of one partition for the subscription that was delivered."""

    partition: int
    """Partition, from 0."""

    start_offset: int
    """Where the account was opened."""

    next_offset: int
    """Offset that the next record will get."""

    acked: int
    """Records that the target took."""

    dead_lettered: int
    """Records that the target rejected for good."""

    dropped: int
    """Records dropped by a limit or lost."""

    skipped: int
    """Records skipped by a seek."""

    pending: int
    """Records not settled."""

    @property
    def balances(self) -> bool:
        """Whether every offset is accounted for."""
        settled = self.acked + self.dead_lettered + self.dropped + self.skipped
        return self.next_offset - self.start_offset == settled + self.pending


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What became of the records. All figures are counts of records."""

    records_in: int
    """Distinct records that the source produced."""

    published: int
    """Offsets that the broker handed out: records in its partitions, delivered or not."""

    delivered: int
    """Distinct records of the source that stand in the target's table."""

    lost: int
    """Records of the source that are not in the table at the end. What still waits in the broker is `pending`
    too.
    """

    duplicates: int
    """Deliveries of an offset that the table already held: rows it would have twice without the idempotency
    key.
    """

    republished: int
    """Rows that the table holds under a second offset: Spark wrote them again after a failed task or
    batch.
    """

    out_of_order: int
    """Records whose first arrival came after that of a higher offset of their partition."""

    unknown: int
    """Rows of the table whose id the source never produced."""

    dropped: int
    """Records that the broker dropped."""

    dead_lettered: int
    """Records that the target rejected for good."""

    pending: int
    """Records that the broker still holds for the target."""

    identity_ok: bool
    """Every partition's account balances, and what it calls acked is what the table holds."""

    @property
    def ok(self) -> bool:
        """Nothing lost, nothing unknown, nothing out of order, nothing left, and the accounts balance."""
        wrong = self.lost + self.unknown + self.out_of_order + self.pending + self.dropped + self.dead_lettered
        return wrong == 0 and self.identity_ok

    def facts(self) -> dict[str, int | bool]:
        """The figures by name, for JSON."""
        return asdict(self)


def reconcile(produced_ids: Iterable[str], arrivals: Iterable[Arrival], accounts: Iterable[Account]) -> Reconciliation:
    """Compare the source's ids with the target's rows and the broker's accounts.

    ``arrivals`` are in the order in which the target first stored them. Takes memory in proportion to the
    ids.
    """
    produced = set(produced_ids)
    found: set[str] = set()
    highest: dict[int, int] = {}
    rows: dict[int, int] = {}
    repeated = republished = out_of_order = unknown = 0
    for arrival in arrivals:
        repeated += arrival.times - 1
        rows[arrival.partition] = rows.get(arrival.partition, 0) + 1
        if arrival.offset < highest.get(arrival.partition, -1):
            out_of_order += 1
        else:
            highest[arrival.partition] = arrival.offset
        if arrival.record_id not in produced:
            unknown += 1
        elif arrival.record_id in found:
            republished += 1
        else:
            found.add(arrival.record_id)
    books = list(accounts)
    return Reconciliation(
        records_in=len(produced),
        published=sum(account.next_offset for account in books),
        delivered=len(found),
        lost=len(produced) - len(found),
        duplicates=repeated,
        republished=republished,
        out_of_order=out_of_order,
        unknown=unknown,
        dropped=sum(account.dropped for account in books),
        dead_lettered=sum(account.dead_lettered for account in books),
        pending=sum(account.pending for account in books),
        identity_ok=bool(books) and all(_agrees(account, rows.get(account.partition, 0)) for account in books),
    )


def _agrees(account: Account, rows: int) -> bool:
    """Whether an account balances and the table holds what it says was acked; in-flight rows may be ahead of
    the ack.
    """
    return account.balances and account.acked <= rows <= account.acked + account.pending
