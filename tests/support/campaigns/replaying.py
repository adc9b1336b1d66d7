"""Reading what is stored of a partition while brokers are killed, and telling the oracle what stands there."""

from __future__ import annotations

import random
from typing import Final

from forebay.client import Client, Gap, OffsetTrimmed
from tests.support.oracles.oracle import Oracle
from tests.support.oracles.records import identity_of

RECORDS_MAX: Final = 3_000


def replay(client: Client, oracle: Oracle, partition: int, promised_end: int, chance: random.Random) -> None:
    """Read a partition from its beginning or from somewhere near its end."""
    start = None if chance.random() < 0.5 else max(0, promised_end - chance.randrange(1_000))
    batch: list[int] = []
    first = position = -1
    try:
        with client.replay(oracle.sink, partition=partition, start=start, on_gap="yield") as records:
            for record in records:
                if isinstance(record, Gap):
                    if not oracle.may_miss(record):
                        oracle.fault("lost", f"a replay of {partition} met {record}")
                    oracle.replayed(partition, first, batch)
                    batch, position = [], record.last_offset + 1
                    continue
                if position >= 0 and record.offset != position:
                    oracle.fault("lost", f"a replay of {partition} went from {position} to {record.offset}")
                if not batch:
                    first = record.offset
                batch.append(identity_of(record.value) or 0)
                position = record.offset + 1
                if len(batch) >= RECORDS_MAX:
                    break
    except OffsetTrimmed:
        pass  # it was acked and trimmed while it was read
    if 0 in batch:
        oracle.fault("lost", f"a replay of {partition} read what nobody sent")
    oracle.replayed(partition, first, batch)
