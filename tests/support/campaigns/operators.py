"""Actions of operators meanwhile: purges of a part of a sink, and seeks of a subscription.

Each does one thing to one partition, and tells the oracle before, because a kill may leave it done and unanswered.
"""

from __future__ import annotations

import random

from forebay.client import Client, ForebayError
from tests.support.oracles.oracle import Oracle


def purge(client: Client, oracle: Oracle, partition: int, chance: random.Random) -> int:
    """Purge what ends at or below some offset that has a receipt; returns how many records went."""
    end = oracle.promises()[partition].end
    until = max(0, end - chance.choice([0, chance.randrange(200), chance.randrange(5_000)]))
    oracle.purging(partition, until)
    try:
        purged = client.sinks.purge(oracle.sink, partition=partition, until_offset=until)
    except ForebayError:
        return 0  # killed: the outcome is seen by the consumers that receive a gap
    return sum(one.records for one in purged)


def seek(client: Client, oracle: Oracle, partition: int, subscription: str, chance: random.Random) -> bool:
    """Move a subscription back or forth; returns whether it is known to have been moved."""
    end = oracle.promises()[partition].end
    to = chance.choice([0, end, chance.randint(0, end), max(0, end - chance.randrange(500))])
    before = oracle.seeking(partition, to, subscription)
    try:
        [place] = client.subscriptions.seek(oracle.sink, subscription, to=to, partition=partition, or_earliest=True)
    except ForebayError:
        oracle.sought(partition, to, subscription, before)
        return False
    oracle.sought(partition, place.start_offset, subscription)
    return True
