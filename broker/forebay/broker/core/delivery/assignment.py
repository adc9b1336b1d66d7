"""Assignment of partitions to the consumers of a subscription.

A pure function: the fewest moves after which the partition counts of any two consumers differ by at most one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def assign(partitions: int, consumers: Sequence[str], owners: Mapping[int, str]) -> dict[int, str]:
    """Return the owner of every partition; empty without consumers.

    ``consumers`` are in the order in which they joined; earlier ones get the odd partitions.
    """
    if not consumers:
        return {}
    share, odd = divmod(partitions, len(consumers))
    quota = {consumer: share + (1 if index < odd else 0) for index, consumer in enumerate(consumers)}
    plan: dict[int, str] = {}
    for partition in range(partitions):
        owner = owners.get(partition)
        if owner is not None and quota.get(owner, 0) > 0:
            plan[partition] = owner
            quota[owner] -= 1
    open_places = iter([consumer for consumer in consumers for _ in range(quota[consumer])])
    for partition in range(partitions):
        if partition not in plan:
            plan[partition] = next(open_places)
    return plan
