"""Sinks that the checks create for themselves, and delete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import grpc

from forebay.contract.refusal import Refusal, of_call
from forebay.contract.wire import Wire
from forebay.errors.reasons import Reason
from forebay.v1 import sink_pb2

PREFIX: Final = "contract-"
"""Default beginning of the names of sinks."""


DEFAULTS: Final[Mapping[str, Any]] = {
    "partitions": 1,
    "buffer_page_size": 256,
    "buffer_mode": sink_pb2.BUFFER_MODE_DISK,
    "fsync": True,
    "overflow": sink_pb2.OVERFLOW_REJECT,
    "ordering": sink_pb2.ORDERING_STRICT,
    "max_disk_cache": 0,
    "max_total_bytes": 64 << 20,
    "max_age": {"seconds": 0},
    "max_attempts": 0,
    "dlq": True,
    "dlq_consecutive_max": 1_000,
    "ack_deadline": {"seconds": 30},
    "resend_interval": {"seconds": 0},
    "retry_backoff_min": {"nanos": 100_000_000},
    "retry_backoff_max": {"seconds": 1},
    "retain_acked_bytes": 0,
}
"""Settings of every sink, so that the defaults of a broker do not matter."""


class Sinks:
    """Names of sinks that no other run uses."""

    def __init__(self, wire: Wire, prefix: str) -> None:
        """``prefix`` is unique for the run."""
        self._wire, self._prefix = wire, prefix
        self._count = 0
        self._made: list[str] = []

    def name(self) -> str:
        """Return the name of a sink that does not exist; one that is created with it is deleted by `delete`."""
        self._count += 1
        return self.own(f"{self._prefix}-{self._count}")

    def own(self, name: str) -> str:
        """Let `delete` delete a sink too that a check may have created; return its name."""
        self._made.append(name)
        return name

    def create(self, **settings: Any) -> str:
        """Create a sink with these settings besides `DEFAULTS`; return its name."""
        name = self.name()
        self._wire.ask("SinkService.CreateSink", name=name, settings={**DEFAULTS, **settings})
        return name

    def delete(self) -> list[tuple[str, Refusal]]:
        """Delete the sinks and their dead letters; return those that could not be deleted, and why."""
        left = []
        for name in self._made:
            try:
                self._wire.ask("SinkService.DeleteSink", name=name, force=True, dead_letters=True)
            except grpc.RpcError as error:
                found = of_call(error)
                if found.reason != Reason.SINK_NOT_FOUND.name:
                    left.append((name, found))
        self._made.clear()
        return left
