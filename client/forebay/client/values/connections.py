"""Connections of a broker, and their open streams."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from forebay.client.values.sinks import ReaderMode


@dataclass(frozen=True, slots=True)
class ConnectedStream:
    """Open stream of a client."""

    method: str
    """``Publish``, ``Deliver``, ``Replay``, ``WatchSinkStats`` or ``CreateBackup``."""

    sink: str
    subscription: str
    client_id: str
    """Id of the writer, the consumer or the reader; of a Spark write its name."""

    principal: str
    """Name of its credential; ``anonymous`` where the broker has none."""

    opened_at: datetime
    records: int
    """Records received from a publisher, or sent to a consumer or reader."""

    bytes: int
    records_per_s: float
    """Rate over the last ten seconds."""

    in_flight: int
    """Records that a consumer has received and not settled."""

    credit_records: int
    """Records that a consumer accepts in flight."""

    held_bytes: int
    """Memory of the broker that the stream holds, because its client has not read it."""

    partition: int | None = None
    """Partition of a replay; None for other streams, as are the facts below."""

    position: int = 0
    """Next offset that a replay gets."""

    lag_records: int = 0
    """Offsets from ``position`` to the end of the partition."""

    mode: ReaderMode = ReaderMode.UNSPECIFIED
    """Origin of the last pages of a replay. Of consumers see ``SubscriptionPartitionStats``."""

    mode_time_s: float = 0.0
    mode_switches: int = 0

    program: str = ""
    """Program of a consumer, its version and what it delivers to, as it said; or empty."""


@dataclass(frozen=True, slots=True)
class Connection:
    """Connection of a client to a broker."""

    peer: str
    """Address and port of the client, or of the last proxy before the broker."""

    opened_at: datetime | None
    """Time at which the broker first saw it, up to a second late; None if it has not seen it yet."""

    used_at: datetime | None
    """End of its last accepted call, or now while one is open; None if there was none."""

    open_calls: int
    received_bytes: int
    sent_bytes: int
    unread_bytes: int
    """Bytes of incomplete requests that the broker holds."""

    streams: tuple[ConnectedStream, ...]
    """The oldest first."""
