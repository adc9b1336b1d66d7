"""Rendezvous hashing: the order in which shards, or brokers, are tried for a sink.

All that know the same names, in any order, compute the same one. A new name moves only the sinks that it receives. A
dead-letter sink has the order of its origin.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

DLQ_SUFFIX: Final = ".dlq"


def ranked(sink: str, names: Iterable[str]) -> list[str]:
    """Return the names in the order of a sink; the first one is its *home*."""
    origin = sink.removesuffix(DLQ_SUFFIX)
    return sorted(names, key=lambda name: (_score(name, origin), name), reverse=True)


def _score(name: str, sink: str) -> bytes:
    return blake2b(f"{name}\0{sink}".encode(), digest_size=8).digest()
