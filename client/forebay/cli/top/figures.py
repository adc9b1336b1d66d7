"""Figures of all brokers of a client at one time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from forebay.cli.inspect.sinks import stats_of
from forebay.client.errors import AccessDenied

if TYPE_CHECKING:
    from forebay.client import BrokerInfo, Client, Connection, SinkStats


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures at one time."""

    at: datetime
    """Clock of this machine."""

    brokers: Sequence[BrokerInfo]
    sinks: Sequence[SinkStats]
    """By name."""

    connections: Sequence[Connection]
    connections_refused: str = ""
    """Reason why connections are not shown; empty if they are."""


def collect(client: Client) -> Figures:
    """Return the figures now. Raises the errors of the client, such as ``BrokerUnavailable``."""
    sinks = stats_of(client, None)  # first: after a takeover it finds the next owner of a shard
    brokers = [client.info(endpoint) for endpoint in client.endpoints]
    connections: list[Connection] = []
    refused = ""
    try:
        for endpoint in client.endpoints:
            connections += client.connections(endpoint)
    except AccessDenied as error:
        refused = str(error)
    return Figures(datetime.now(UTC), brokers, sinks, connections, refused)
