"""Last error of Kafka's client beside an answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaError

from forebay.broker.storage.replication.engines.kafka.connection.access import reason_of


class Trouble:
    """Last error of the client beside an answer, while it may be the cause of a missing one."""

    def __init__(self, recent_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._recent_s: Final = recent_s
        self._clock: Final = clock
        self._last: tuple[float, KafkaError] | None = None

    def note(self, error: KafkaError) -> None:
        """Note an error, in a thread of the client."""
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return  # nothing needs the group
        if error.code() == KafkaError._ALL_BROKERS_DOWN and self.recent() is not None:
            return  # its reasons are known
        self._last = self._clock(), error

    def clear(self) -> None:
        """Forget it: the client works."""
        self._last = None

    def recent(self) -> KafkaError | None:
        """Return the last error, None if there is none or it is old."""
        last = self._last  # another thread may forget it meanwhile
        return None if last is None or self._clock() - last[0] > self._recent_s else last[1]

    def text(self, message: str = "") -> str:
        """Return what to add to the message of an error; nothing of what is in it."""
        found = self.recent()
        return "" if found is None or found.str() in message else f" ({reason_of(found)})"
