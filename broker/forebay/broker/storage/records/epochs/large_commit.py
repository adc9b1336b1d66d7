"""Note of a large commit while it writes entries beyond the ends of a sink's partitions.

Its last batch moves the ends and deletes the note. A start that finds a note deletes the entries beyond the ends.
"""

from __future__ import annotations

import json
from typing import Final

from forebay.broker.core.writes import DropLargeCommit, PutLargeCommit
from forebay.broker.storage.records.kind import Kind
from forebay.broker.storage.records.sealed import Codec, Undecodable, opened, seal

Epochs = tuple[tuple[str, int], ...]
"""Producers and numbers of the epochs that are being committed."""


def _encode(epochs: Epochs) -> bytes:
    return seal(json.dumps(epochs).encode())


def _decode(value: bytes) -> Epochs:
    try:
        return tuple((str(producer), int(epoch)) for producer, epoch in json.loads(opened(value)))
    except (ValueError, TypeError) as error:
        raise Undecodable(f"not a large commit: {error}") from error


LARGE_COMMIT: Final = Kind(
    name="large commit",
    prefix=b"\x27",
    layout="sink u32",
    codec=Codec(_encode, _decode),
    lives="while a large commit writes entries beyond the ends of the sink's partitions",
    damaged="the entries beyond the ends are deleted; the stages of the epochs stay until their producer is dropped",
    puts=PutLargeCommit,
    drops=DropLargeCommit,
)
