"""Live records and bytes of a sink, added up over all its logs: what the running sum of the sink has to equal."""

from __future__ import annotations

from collections.abc import Sequence

from forebay.broker.core.partition.log import PartitionLog


def usage(logs: Sequence[PartitionLog]) -> tuple[int, int]:
    """Return the live records and bytes, including queued ones."""
    records = sum(log.next_offset - log.head.removed_records for log in logs)
    size = sum(log.size + log.queued_bytes for log in logs)
    assert all(log.usage is logs[0].usage for log in logs)
    assert len(logs) == 0 or (logs[0].usage.records, logs[0].usage.size) == (records, size), "the running sum is off"
    return records, size
