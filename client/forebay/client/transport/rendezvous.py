"""Mapping of sinks to brokers by rendezvous hashing.

Every client with the same set of endpoints, in any order, maps a sink to the same broker. Adding a broker moves only
the sinks that it receives. A dead-letter sink is on the broker of its origin.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

DLQ_SUFFIX: Final = ".dlq"


def endpoint_of(sink: str, endpoints: Sequence[str]) -> str:
    """Return the endpoint of ``sink``, one of ``endpoints`` (at least one)."""
    if len(endpoints) == 1:
        return endpoints[0]
    origin = sink.removesuffix(DLQ_SUFFIX)
    return max(endpoints, key=lambda endpoint: (_score(endpoint, origin), endpoint))


def _score(endpoint: str, sink: str) -> bytes:
    return blake2b(f"{endpoint}\0{sink}".encode(), digest_size=8).digest()
