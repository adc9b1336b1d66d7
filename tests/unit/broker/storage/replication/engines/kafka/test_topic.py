from __future__ import annotations

from math import ceil

from forebay.broker.storage.replication.engines.kafka.topic import MESSAGE_BYTES
from forebay.broker.storage.replication.owner import CHUNK_BYTES
from forebay.broker.storage.replication.record import HEADER_BYTES


def test_the_largest_record_of_a_journal_takes_two_messages() -> None:
    assert ceil((HEADER_BYTES + CHUNK_BYTES) / MESSAGE_BYTES) == 2
