"""Sinks that the checks create for themselves, and delete."""

from __future__ import annotations

from typing import Any, Final

import grpc

from forebay.contract.refusal import Refusal, of_call
from forebay.contract.wire import Wire
from forebay.errors.reasons import Reason

PREFIX: Final = "contract-"
"""Default beginning of the names of sinks."""


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
        """Create a sink with these settings; return its name."""
        name = self.name()
        self._wire.ask("SinkService.CreateSink", name=name, settings=settings)
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
