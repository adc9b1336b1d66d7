"""Real server of a position store: a process on a free port of loopback, with its data in a folder of its own."""

from __future__ import annotations

import socket
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path

from tests.support.processes import server as processes


def required(tool: str, found: str | None) -> str:
    """Return what ``found`` names; skips the test where it is missing, and fails it in CI."""
    return processes.required(tool, found, by="test-stores", variable="FOREBAY_REQUIRE_STORES")


def free_port() -> int:
    """Return a port of loopback that was free just now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class StoreServer(processes.ServerProcess):
    """A server with credentials, on a port of its own."""

    good: Mapping[str, str]
    """Credentials that the server accepts, as environment variables."""

    wrong: Mapping[str, str]
    """Credentials that it refuses."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.port = free_port()

    @abstractmethod
    def url(self, place: str, port: int | None = None) -> str:
        """Return the URL of a store that no other test uses."""


def answers(port: int) -> bool:
    """Return True if a port of loopback accepts connections."""
    with socket.socket() as one:
        one.settimeout(1)
        return one.connect_ex(("127.0.0.1", port)) == 0
