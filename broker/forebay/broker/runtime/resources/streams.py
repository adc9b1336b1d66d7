"""Open streams of a broker: their number has a bound, and each says who does what."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from forebay.broker.core.errors import BrokerError
from forebay.broker.core.resources.rate import RecentRate
from forebay.broker.runtime.clock import Clock
from forebay.broker.runtime.read.readers import Reader
from forebay.broker.runtime.resources.stream_memory import Share
from forebay.errors.reasons import Reason


class StreamKind(StrEnum):
    """Kinds of streams, by their call."""

    PUBLISH = "Publish"
    DELIVER = "Deliver"
    REPLAY = "Replay"
    WATCH = "WatchSinkStats"
    BACKUP = "CreateBackup"


@dataclass(frozen=True, slots=True)
class CreditUse:
    """Records in flight of a consumer, and how many may be."""

    in_flight: int = 0
    records: int = 0


@dataclass(slots=True, eq=False)
class OpenStream:
    """One stream. Used on the loop."""

    kind: StreamKind
    peer: str
    """As gRPC writes it."""

    principal: str
    opened_at_us: int
    clock: Clock
    sink: str = ""
    subscription: str = ""
    client_id: str = ""
    program: str = ""
    """Program of a consumer, as it said."""

    records: int = 0
    size: int = 0
    """Bytes of the pages of ``records``."""

    memory: Share = field(default_factory=Share)
    credit: Callable[[], CreditUse] = CreditUse
    reader: Reader | None = None
    """Progress of a replay."""

    _rate: RecentRate = field(default_factory=RecentRate)

    def count(self, records: int, size: int) -> None:
        """Count records that were received or sent."""
        self.records += records
        self.size += size
        self._rate.add(records, self.clock.monotonic())

    @property
    def records_per_s(self) -> float:
        """Rate over the last ten seconds."""
        return self._rate.per_s(self.clock.monotonic())


class OpenStreams:
    """Streams of one broker. Used on the loop."""

    def __init__(self, bound: int, clock: Clock) -> None:
        self._bound = bound
        self._clock = clock
        self._open: set[OpenStream] = set()

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[OpenStream]:
        return iter(list(self._open))

    @contextmanager
    def opened(self, kind: StreamKind, peer: str, principal: str, *, sink: str = "") -> Iterator[OpenStream]:
        """Keep a stream while it is open. Raises ``TOO_MANY_STREAMS``."""
        if len(self._open) >= self._bound:
            raise BrokerError(Reason.TOO_MANY_STREAMS, "streams", bound=self._bound)
        stream = OpenStream(kind, peer, principal, self._clock.wall_us(), self._clock, sink)
        self._open.add(stream)
        try:
            yield stream
        finally:
            self._open.discard(stream)
