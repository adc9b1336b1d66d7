"""Broker processes of one shard, whose journal is a directory."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.support.processes.broker import BrokerProcess, Launcher, free_port

AFTER_S: Final = 1.0
"""Silence of an owner after which another broker takes over."""


class Shard:
    """Brokers by name, each in a directory of its own and with an endpoint of its own."""

    def __init__(self, launcher: Launcher, directory: Path) -> None:
        self._launcher, self.directory = launcher, directory
        self.journal = directory / "journal"
        self._ports = {name: free_port() for name in "abc"}

    def endpoint(self, name: str) -> str:
        """Endpoint of a broker, also of one that does not serve."""
        return f"127.0.0.1:{self._ports[name]}"

    @property
    def address(self) -> str:
        """One address of all brokers."""
        return f"ipv4:{','.join(map(self.endpoint, self._ports))}"

    def start(self, name: str, **settings: object) -> BrokerProcess:
        return self._launcher.start(
            self.directory / name,
            self.endpoint(name),
            journal=str(self.journal),
            **{"takeover_after_s": AFTER_S, **settings},
        )
