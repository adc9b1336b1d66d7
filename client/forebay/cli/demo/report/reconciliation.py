"""Reconciliation of the source's records with the target's rows.

A pure function of ids, arrivals and the broker's accounts. It trusts neither Spark nor the broker about the records
themselves; the broker's counters are only used to check that its accounts balance and agree with the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class TargetRow:
    """Stored row of the target's table; rows are ordered by the time of their first arrival."""

    partition: int
    """Partition of the sink."""

    offset: int
    """Offset in the partition."""

    record_id: str
    """Id given by the source."""

    times: int
    """Number of arrivals at the target; all after the first were detected by the idempotency key."""


@dataclass(frozen=True, slots=True)
class Account:
    """Account of one partition at the broker, for the delivered subscription."""

    partition: int
    """Partition, from 0."""

    start_offset: int
    """Offset at which the account was opened."""

    next_offset: int
    """Offset of the next record."""

    acked: int
    """Records accepted by the target."""

    dead_lettered: int
    """Records rejected permanently by the target."""

    dropped: int
    """Records dropped at a limit, or lost."""

    skipped: int
    """Records skipped by a seek."""

    pending: int
    """Unsettled records."""

    @property
    def balances(self) -> bool:
        """True if every offset is accounted for."""
        settled = self.acked + self.dead_lettered + self.dropped + self.skipped
        return self.next_offset - self.start_offset == settled + self.pending


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """Result of the reconciliation, in numbers of records."""

    records_in: int
    """Distinct records produced by the source."""

    published: int
    """Offsets assigned by the broker: records in its partitions, delivered or not."""

    delivered: int
    """Distinct records of the source in the target's table."""

    lost: int
    """Records of the source that are missing in the table at the end.

    Records that are still in the broker also count as `pending`.
    """

    duplicates: int
    """Deliveries of an offset that was already in the table.

    Without the idempotency key the table would contain these rows twice.
    """

    republished: int
    """Rows with a second offset in the table: Spark wrote them again after a failed task or batch."""

    out_of_order: int
    """Records that arrived first after a higher offset of their partition."""

    unknown: int
    """Rows of the table with an id that the source did not produce."""

    dropped: int
    """Records dropped by the broker."""

    dead_lettered: int
    """Records rejected permanently by the target."""

    pending: int
    """Records that are still pending in the broker."""

    identity_ok: bool
    """Every partition's account balances, and its acked records are in the table."""

    @property
    def ok(self) -> bool:
        """True if no record is lost, unknown, out of order or left, and the accounts balance."""
        wrong = self.lost + self.unknown + self.out_of_order + self.pending + self.dropped + self.dead_lettered
        return wrong == 0 and self.identity_ok

    def facts(self) -> dict[str, int | bool]:
        """Return the figures by name, for JSON."""
        return asdict(self)


def reconcile(
    produced_ids: Iterable[str], target_rows: Iterable[TargetRow], accounts: Iterable[Account]
) -> Reconciliation:
    """Compare the source's ids with the target's rows and the broker's accounts.

    ``target_rows`` are ordered by the time of their first storage. Memory use is proportional to the number of ids.
    """
    produced = set(produced_ids)
    found: set[str] = set()
    highest: dict[int, int] = {}
    stored: dict[int, int] = {}
    repeated = republished = out_of_order = unknown = 0
    for row in target_rows:
        repeated += row.times - 1
        stored[row.partition] = stored.get(row.partition, 0) + 1
        if row.offset < highest.get(row.partition, -1):
            out_of_order += 1
        else:
            highest[row.partition] = row.offset
        if row.record_id not in produced:
            unknown += 1
        elif row.record_id in found:
            republished += 1
        else:
            found.add(row.record_id)
    balances = list(accounts)
    return Reconciliation(
        records_in=len(produced),
        published=sum(account.next_offset for account in balances),
        delivered=len(found),
        lost=len(produced) - len(found),
        duplicates=repeated,
        republished=republished,
        out_of_order=out_of_order,
        unknown=unknown,
        dropped=sum(account.dropped for account in balances),
        dead_lettered=sum(account.dead_lettered for account in balances),
        pending=sum(account.pending for account in balances),
        identity_ok=bool(balances) and all(_agrees(account, stored.get(account.partition, 0)) for account in balances),
    )


def _agrees(account: Account, rows: int) -> bool:
    """Return True if an account balances and matches the rows of the table.

    Records in flight may be in the table before their ack.
    """
    return account.balances and account.acked <= rows <= account.acked + account.pending
