"""Table of the kinds of value in the meta family: name, key prefix, decoder, and use at a start.

Whatever goes through all stored values is derived from it: what a start reads, and what `verify` checks. A test holds
it against the keys, and against everything that the core can write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from forebay.broker.storage.errors import StoreCorrupt
from forebay.broker.storage.records import codec, keys
from forebay.broker.storage.store.contract import Family, Store

_SLICE: Final = 1_000


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of stored value."""

    name: str
    """For people."""

    prefix: bytes
    """First byte of its keys."""

    decode: Callable[[bytes], object]
    """Raises ``codec.Undecodable`` for a value that does not check out."""

    at_start: bool = True
    """A start reads all of them."""


KINDS: Final = (
    Kind("store id", keys.STORE, codec.decode_text),
    Kind("start count", keys.START, codec.decode_number),
    Kind("highest page number", keys.HIGHEST, codec.decode_highest),
    Kind("next sink", keys.NEXT_SINK, codec.decode_number),
    Kind("age clock", keys.AGE, codec.decode_age),
    Kind("counting start", keys.COUNTING, codec.decode_number),
    Kind("stopped start", keys.STOPPED, codec.decode_number),
    Kind("sink", keys.SINK, codec.decode_sink),
    Kind("tail", keys.TAIL, codec.decode_tail),
    Kind("head", keys.HEAD, codec.decode_head),
    Kind("cursor", keys.CURSOR, codec.decode_cursor),
    Kind("writer", keys.WRITER, codec.decode_number),
    Kind("slot", keys.SLOT, codec.decode_slot, at_start=False),
    Kind("gap", keys.GAP, lambda value: codec.decode_gap(0, value)),
    Kind("ledger entry", keys.DUE, codec.decode_due),
    Kind("quarantined page", keys.QUARANTINE, codec.decode_quarantined),
    Kind("subscription", keys.SUBSCRIPTION, codec.decode_subscription),
    Kind("totals", keys.TOTALS, codec.decode_totals),
    Kind("reserve", keys.RESERVE, codec.decode_reserve),
    Kind("marks", keys.MARKS, codec.decode_marks),
    Kind("held runs", keys.HELD, codec.decode_held),
    Kind("stage", keys.STAGE, codec.decode_stage),
    Kind("staged page", keys.STAGED, codec.decode_staged),
    Kind("producer", keys.PRODUCER, codec.decode_producer),
    Kind("epoch", keys.EPOCH, codec.decode_epoch, at_start=False),
    Kind("stages of an epoch", keys.EPOCH_STAGES, codec.decode_epoch_stages, at_start=False),
    Kind("placing commit", keys.PLACING, codec.decode_placing),
    Kind("schema", keys.SCHEMA, lambda value: codec.decode_schema(0, value)),
)

BY_PREFIX: Final = {kind.prefix: kind for kind in KINDS}


def damaged_values(store: Store) -> Iterator[str]:
    """Return a sentence for each value of the meta family that does not check out or is of no known kind."""
    first, end = b"", b"\xff" * 64
    while True:
        try:
            found = store.scan(Family.META, first, end, _SLICE)
        except StoreCorrupt as damage:
            yield f"state could not be read to its end: {damage}"
            return
        for key, value in found:
            problem = _problem(key, value)
            if problem is not None:
                yield problem
        if len(found) < _SLICE:
            return
        first = found[-1][0] + b"\0"


def _problem(key: bytes, value: bytes) -> str | None:
    kind = BY_PREFIX.get(key[:1])
    if kind is None:
        return f"value of no known kind at key {key.hex()}"
    try:
        kind.decode(value)
    except codec.Undecodable as damage:
        return f"{kind.name} at key {key.hex()}: {damage}"
    return None
