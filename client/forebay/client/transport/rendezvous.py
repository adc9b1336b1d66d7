"""Mapping of sinks to independent brokers by rendezvous hashing of their endpoints.

Every client with the same set of endpoints, in any order, maps a sink to the same broker. Adding a broker moves only
the sinks that it receives. A dead-letter sink is on the broker of its origin.
"""

from __future__ import annotations

from collections.abc import Sequence

from forebay.shards.rendezvous import ranked


def endpoint_of(sink: str, endpoints: Sequence[str]) -> str:
    """Return the endpoint of ``sink``, one of ``endpoints`` (at least one)."""
    if len(endpoints) == 1:
        return endpoints[0]
    return ranked(sink, endpoints)[0]
