"""Engine in a topic of Kafka with one partition, or of a system with its protocol.

Records, named objects and files are objects whose messages are in the partition, see ``objects.table``: its order
decides which of two writers succeeds. What is read comes from one log in one order. An answer may be late, but never
mixes times: a reader that finds a record, and then no checkpoint above it, finds a state that the journal had.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Final

from forebay.broker.storage.backup.target import Target
from forebay.broker.storage.replication.engine import EngineUntrusted, name_of
from forebay.broker.storage.replication.engines.kafka.connection.access import ConnectionEnded
from forebay.broker.storage.replication.engines.kafka.connection.address import KafkaAddress
from forebay.broker.storage.replication.engines.kafka.connection.handshake import tls_problem
from forebay.broker.storage.replication.engines.kafka.connection.topic import open_topic
from forebay.broker.storage.replication.engines.kafka.connection.topic_log import TopicLog
from forebay.broker.storage.replication.engines.kafka.objects.index import INDEX_BYTES
from forebay.broker.storage.replication.engines.kafka.objects.reclaiming import GARBAGE_BYTES, Reclaiming
from forebay.broker.storage.replication.engines.kafka.objects.store import TIMEOUT_S, TopicStore
from forebay.broker.storage.replication.engines.kafka.objects.target import TopicTarget
from forebay.broker.storage.replication.pieces import Piece

RECORDS: Final = "records/"
RACES: Final = "races/"
NAMED: Final = "named/"
FILES: Final = "files/"
PROBE_RACES: Final = 5
"""Few: the order of the partition decides, whatever a node answers."""


class KafkaEngine:
    """``Engine`` in a topic."""

    def __init__(
        self,
        address: KafkaAddress,
        *,
        creates: bool = True,
        garbage_bytes: int = GARBAGE_BYTES,
        index_bytes: int = INDEX_BYTES,
    ) -> None:
        """Create the topic if it does not exist, unless ``creates`` is False.

        Raises ``EngineUnsuitable`` for a topic that could lose records, ``EngineAway``, and ``FileNotFoundError``.
        """
        self.address: Final = str(address)
        log = TopicLog(address, TIMEOUT_S)
        with ExitStack() as failed:
            failed.callback(log.close)  # an error may be kept, and with it what it refers to
            try:
                topic = open_topic(address, log.admin, log.unanswered, creates=creates, timeout_s=TIMEOUT_S)
            except (ConnectionEnded, EngineUntrusted) as failure:
                said = str(failure)
                if (problem := tls_problem(address, said)) is not None:
                    raise problem from failure
                raise
            log.check_rights()
            failed.pop_all()
        self.durability: Final = topic.durability
        self.races: Final = PROBE_RACES
        self._store: Final = TopicStore(log, self.address, topic.message_bytes, index_bytes=index_bytes)
        self._reclaiming: Final = Reclaiming(self._store, garbage_bytes=garbage_bytes)

    def create(self, position: int, pieces: Sequence[Piece]) -> bool:
        """See ``Engine.create``."""
        return self._store.create(RECORDS + name_of(position), pieces)

    def read(self, position: int) -> bytes | None:
        """See ``Engine.read``."""
        return self._store.content(self._store.find_known(RECORDS + name_of(position)))

    def peek(self, position: int) -> bytes | None:
        """See ``Engine.peek``."""
        found = self._store.find_known(RECORDS + name_of(position))
        return found.begin if found is not None else None

    def sizes(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """See ``Engine.sizes``."""
        found = ((int(each.name.removeprefix(RECORDS)), each.size) for each in self._store.below(RECORDS))
        yield from sorted((position, size) for position, size in found if first <= position < end)

    def replace(self, position: int, pieces: Sequence[Piece]) -> None:
        """See ``Engine.replace``."""
        self._store.put(RECORDS + name_of(position), pieces)

    def delete(self, positions: Sequence[int]) -> None:
        """See ``Engine.delete``."""
        self._store.delete([RECORDS + name_of(position) for position in positions])

    def reclaim(self, stop: threading.Event) -> None:
        """See ``Engine.reclaim``."""
        self._reclaiming.run(stop)

    def index(self) -> None:
        """See ``Engine.index``."""
        self._store.index()

    def create_named(self, name: str, content: bytes) -> bool:
        """See ``Engine.create_named``."""
        return self._store.create(NAMED + name, (content,))

    def read_named(self, name: str) -> bytes | None:
        """See ``Engine.read_named``."""
        return self._store.content(self._store.find(NAMED + name))

    def put_named(self, name: str, content: bytes) -> None:
        """See ``Engine.put_named``."""
        self._store.put(NAMED + name, (content,))

    def delete_named(self, name: str) -> None:
        """See ``Engine.delete_named``."""
        self._store.delete([NAMED + name])

    def names(self, folder: str) -> list[str]:
        """See ``Engine.names``."""
        return sorted(each.name.removeprefix(NAMED) for each in self._store.below(f"{NAMED}{folder}/"))

    def files(self) -> Target:
        """See ``Engine.files``."""
        return TopicTarget(self._store, FILES)

    def free_bytes(self) -> int | None:
        """Return None: Kafka has no such number for clients; see ``Engine.free_bytes``."""
        return None

    def race(self, name: str) -> bool:
        """See ``Engine.race``."""
        return self._store.create(RACES + name, ())

    def end_races(self, names: Sequence[str]) -> None:
        """See ``Engine.end_races``."""
        self._store.delete([RACES + name for name in names])
