"""Contents of a sink, for assertions."""

from __future__ import annotations

from forebay.client import Client, ReplayedRecord


def records(endpoint: str, sink: str = "orders") -> list[ReplayedRecord]:
    """Return all records of a sink, by partition and offset."""
    with Client(endpoint) as client:
        partitions = client.sinks.get(sink).settings.partitions
        return [
            record
            for partition in range(partitions)
            for record in client.replay(sink, partition=partition)
            if isinstance(record, ReplayedRecord)
        ]


def values(endpoint: str, sink: str = "orders") -> list[bytes]:
    """Return all values of a sink, sorted."""
    return sorted(record.value for record in records(endpoint, sink))


def staged(endpoint: str, sink: str = "orders") -> int:
    """Return how many records are staged and not committed."""
    with Client(endpoint) as client:
        return client.sinks.stats(sink).staged_records
