"""Index of a topic: the table of its objects at an offset, from which a reader takes the messages.

An index is an object of the topic like others, which versions before it only carry: a compressed document of one line.
A reader looks for the newest index from the end of the topic backwards, and takes the messages from there on. What was
still needed of the messages that were cut since was carried, before or after the index.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from forebay.broker.storage.records.json_line import decode_line, encode_line
from forebay.broker.storage.replication.engines.kafka.objects.log import LogMessage
from forebay.broker.storage.replication.engines.kafka.objects.message import MessageKind, MessageUnknown, decode
from forebay.broker.storage.replication.engines.kafka.objects.table import (
    Incomplete,
    Objects,
    StoredObject,
    TableState,
)

INDEX: Final = "index/1"
"""Name of the object; that of another content, or of other effects of messages, is another one."""
INDEX_BYTES: Final = 256 << 20
"""Messages after an index from which another one is due, in bytes."""
INDEX_SHARE: Final = 16
"""Another one is due only after this many times its own bytes, too."""
LEVEL: Final = 1
"""Of the compression: the fastest."""
MESSAGES: Final = 16
"""Messages that are searched first."""
STEP: Final = 8
"""Factor by which each next search is longer."""
SEARCHED_BYTES: Final = 2 << 30
"""Bytes without an index after which the topic is read from its beginning."""


class IndexDamaged(ValueError):
    """Bytes that are no index."""


def encode_index(state: TableState) -> bytes:
    """Return a state as bytes."""
    objects, incomplete = state.objects, state.incomplete
    document = {
        "begin": state.begin,
        "base": state.base,
        "sizes": state.sizes.tolist(),
        "objects": {
            "name": [each.name for each in objects],
            "origin": [each.origin for each in objects],
            "offsets": [each.offsets for each in objects],
            "size": [each.size for each in objects],
            "begin": [each.begin.hex() for each in objects],
        },
        "changed": list(state.changed.items()),
        "carries": list(state.carries.items()),
        "incomplete": [
            {
                "change": change,
                "offsets": list(one.offsets.items()),
                "parts": one.parts,
                "size": one.size,
                "begin": one.begin.hex(),
                "names": [(part, names.hex()) for part, names in one.names.items()],
            }
            for change, one in incomplete.items()
        ],
        "last": [state.last[0], state.last[1].hex()],
    }
    return zlib.compress(encode_line(document), LEVEL)


def decode_index(data: bytes) -> TableState:
    """Return the state in bytes. Raises ``IndexDamaged``."""
    try:
        document = decode_line(zlib.decompress(data))
        state = _state(document) if document is not None else None
    except (zlib.error, LookupError, TypeError, ValueError, OverflowError) as error:
        raise IndexDamaged(f"it has no table: {error!r}") from error
    if state is None:
        raise IndexDamaged("its checksum is wrong")
    return state


def _state(document: Mapping[str, Any]) -> TableState:
    columns = document["objects"]
    return TableState(
        document["begin"],
        document["base"],
        array("I", document["sizes"]),
        [
            StoredObject(name, origin, tuple(offsets), size, bytes.fromhex(begin))
            for name, origin, offsets, size, begin in zip(
                *(columns[name] for name in ("name", "origin", "offsets", "size", "begin")), strict=True
            )
        ],
        dict(document["changed"]),
        {
            tuple(each["change"]): Incomplete(
                dict(each["offsets"]),
                each["parts"],
                each["size"],
                bytes.fromhex(each["begin"]),
                {part: bytes.fromhex(names) for part, names in each["names"]},
            )
            for each in document["incomplete"]
        },
        dict(document["carries"]),
        (document["last"][0], bytes.fromhex(document["last"][1])),
    )


def index_is_due(objects: Objects, *, index_bytes: int = INDEX_BYTES) -> bool:
    """Return whether enough was written since the last index, or since the beginning."""
    found = objects.get(INDEX)
    if found is None or found.origin < objects.begin:
        return objects.bytes_before(objects.end) >= index_bytes
    return objects.bytes_after(found.origin) >= max(index_bytes, INDEX_SHARE * found.size)


@dataclass(slots=True)
class _Parts:
    """Messages of one index."""

    values: dict[int, bytes] = field(default_factory=dict)
    count: int = 0
    """Their number, 0 while the last one is not found."""

    last: int = 0
    """Highest offset."""


def find_indexes(read: Callable[[int], list[LogMessage]], begin: int, end: int) -> Iterator[bytes]:
    """Yield the contents of the indexes of a topic, the newest first.

    ``read`` returns some messages from an offset on.
    """
    found: dict[tuple[int, int], _Parts] = {}
    first, count, searched = end, MESSAGES, 0
    while first > begin and searched < SEARCHED_BYTES:
        at, until = max(begin, first - count), first
        first = at
        while at < until:
            for message in read(at):
                at = message.offset + 1
                if at > until:
                    break
                searched += len(message.value)
                _collect(found, message)
        complete = [key for key, parts in found.items() if parts.count and len(parts.values) == parts.count]
        for key in sorted(complete, key=lambda key: found[key].last, reverse=True):
            parts = found.pop(key)
            yield b"".join(parts.values[part] for part in range(parts.count))
        mean = max(1, searched // (end - first))
        count = max(1, min(STEP * count, (SEARCHED_BYTES - searched) // mean))


def _collect(found: dict[tuple[int, int], _Parts], message: LogMessage) -> None:
    try:
        header = decode(message.key)
    except MessageUnknown:
        return  # the table refuses it
    if header is None or header.kind is not MessageKind.PUT or header.name != INDEX:
        return
    parts = found.setdefault((header.writer, header.number), _Parts())
    parts.values[header.part] = message.value
    parts.count = max(parts.count, header.parts)
    parts.last = max(parts.last, message.offset)
