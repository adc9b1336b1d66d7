"""Stored keys: family, layout, order and lifetime.

Integers are big-endian, so keys sort as numbers do.

| kind | family | key | lives |
|---|---|---|---|
| bulk page | bulk | page number u64, sink u32, partition u32 | until reclaimed |
| small page | small | sink u32, partition u32, page number u64 | until reclaimed |
| entry | index | sink u32, partition u32, base offset u64 | until its page is trimmed or dropped |
| copy of a sink | index | 0 u32, sink u32, 0 u64 | the sink's life |
| store | meta 01 | | the store's life |
| start count | meta 02 | | the store's life; rises with every start |
| highest page number | meta 03 | | written with every batch that names pages |
| next sink id | meta 04 | | the store's life |
| age clock | meta 05 | | the store's life |
| counting start | meta 06 | | written by every start that has taken over what the last one left |
| sink | meta 10 | sink u32 | the sink's life |
| tail | meta 11 | sink u32, partition u32 | the sink's life |
| head | meta 12 | sink u32, partition u32 | the sink's life |
| cursor | meta 13 | sink u32, partition u32, subscription | the subscription's life |
| writer | meta 14 | sink u32, writer id | until it closes or idles out |
| slot | meta 15 | sink u32, length of writer id u8, writer id, partition u32, sequence mod 256 u16 | as its writer |
| gap | meta 16 | sink u32, partition u32, first offset u64, subscription or nothing | until merged |
| due | meta 17 | sink u32, partition u32, bulk u8, first page number u64 | until the bytes are reclaimed |
| quarantine | meta 18 | sink u32, partition u32, page number u64 | the sink's life |
| subscription | meta 19 | sink u32, name | until it is deleted |
| totals | meta 1b | sink u32, partition u32, subscription | the subscription's life |
| marks | meta 20 | sink u32, partition u32 | while acked pages are retained |
| reserve | meta 1f | sink u32, partition u32 | while the sink may forget what it has accepted |
| held | meta 21 | sink u32, partition u32 | while the stored tail counts pages that only memory holds |
| stage | meta 22 | sink u32, stage number u64 | until its epoch is committed, or it is discarded |
| staged page | meta 23 | sink u32, stage number u64, partition u32, sequence u64 | as its stage |
| producer | meta 24 | sink u32, producer | until nothing of it is left and it has idled out |
| epoch | meta 25 | sink u32, length of producer u8, producer, epoch u64 | while one of its pages lives |
| stages of an epoch | meta 28 | sink u32, length of producer u8, producer, epoch u64, partition u32 | as their epoch |
| schema | meta 26 | sink u32, version u32 | the sink's life |
| placing | meta 27 | sink u32 | while a large commit writes entries behind the ends of the sink's partitions |
"""

from __future__ import annotations

import struct
from typing import Final

from forebay.broker.core.publish.writer import WINDOW

_U32: Final = struct.Struct(">I")
_PAIR: Final = struct.Struct(">II")
_PLACE: Final = struct.Struct(">IIQ")
_BULK: Final = struct.Struct(">QII")
_DUE: Final = struct.Struct(">IIBQ")
_SLOT: Final = struct.Struct(">IH")
_STAGE: Final = struct.Struct(">IQ")
_STAGED: Final = struct.Struct(">IQIQ")
_U64: Final = struct.Struct(">Q")

STORE: Final = b"\x01"
START: Final = b"\x02"
HIGHEST: Final = b"\x03"
NEXT_SINK: Final = b"\x04"
AGE: Final = b"\x05"
COUNTING: Final = b"\x06"
STOPPED: Final = b"\x07"
SINK: Final = b"\x10"
TAIL: Final = b"\x11"
HEAD: Final = b"\x12"
CURSOR: Final = b"\x13"
WRITER: Final = b"\x14"
SLOT: Final = b"\x15"
GAP: Final = b"\x16"
DUE: Final = b"\x17"
QUARANTINE: Final = b"\x18"
SUBSCRIPTION: Final = b"\x19"
TOTALS: Final = b"\x1b"
RESERVE: Final = b"\x1f"
MARKS: Final = b"\x20"
HELD: Final = b"\x21"
STAGE: Final = b"\x22"
STAGED: Final = b"\x23"
PRODUCER: Final = b"\x24"
EPOCH: Final = b"\x25"
SCHEMA: Final = b"\x26"
PLACING: Final = b"\x27"
EPOCH_STAGES: Final = b"\x28"
OF_EPOCHS: Final = (STAGE, STAGED, PRODUCER, EPOCH, EPOCH_STAGES)
OF_SINKS: Final = (
    *(SINK, TAIL, HEAD, CURSOR, WRITER, SLOT, GAP, SUBSCRIPTION, TOTALS, RESERVE, MARKS, HELD),
    *OF_EPOCHS,
    SCHEMA,
    PLACING,
)
"""Kinds that go with their sink at once."""

Span = tuple[bytes, bytes]


def bulk(number: int, sink: int = 0, partition: int = 0) -> bytes:
    """Key of a bulk page; of no sink, the one that all pages from ``number`` on are at or above."""
    return _BULK.pack(number, sink, partition)


def bulk_of(key: bytes) -> tuple[int, int, int]:
    """Number, sink and partition of a bulk page."""
    number, sink, partition = _BULK.unpack(key)
    return number, sink, partition


def small(number: int, sink: int, partition: int) -> bytes:
    """Key of a small page."""
    return place(sink, partition, number)


def place(sink: int, partition: int, number: int) -> bytes:
    """Key of a small page (``number``) or of an entry (base offset)."""
    return _PLACE.pack(sink, partition, number)


def place_of(key: bytes) -> tuple[int, int, int]:
    """Sink, partition and number of a small page's or entry's key."""
    sink, partition, number = _PLACE.unpack(key)
    return sink, partition, number


def places(sink: int, partition: int, first: int, end: int) -> Span:
    """Keys of small pages or entries with numbers in ``[first, end)``."""
    return place(sink, partition, first), place(sink, partition, end)


def of_sink(sink: int, kind: bytes = b"") -> Span:
    """All keys of a sink: of one kind of meta, or in another family."""
    return kind + _U32.pack(sink), kind + _U32.pack(sink + 1)


def of_kind(kind: bytes) -> Span:
    """All keys of one kind of meta."""
    return kind, bytes([kind[0] + 1])


def sink(number: int) -> bytes:
    return SINK + _U32.pack(number)


def sink_copy(number: int) -> bytes:
    """Key of a sink's record in the index family: a second place for what nothing else tells again."""
    return place(0, number, 0)


def sink_copies() -> Span:
    """All of these."""
    return place(0, 0, 0), place(1, 0, 0)


def sink_of(key: bytes) -> int:
    return int(_U32.unpack_from(key, 1)[0])


def partition(kind: bytes, sink_id: int, number: int) -> bytes:
    """Key of a partition's tail, head, marks, reserve or held runs."""
    return kind + _PAIR.pack(sink_id, number)


def partition_of(key: bytes) -> tuple[int, int]:
    """Sink and partition of any meta key that begins with them."""
    sink_id, number = _PAIR.unpack_from(key, 1)
    return sink_id, number


def cursor(sink_id: int, subscription: str, number: int) -> bytes:
    return CURSOR + _PAIR.pack(sink_id, number) + subscription.encode()


def totals(sink_id: int, subscription: str, number: int) -> bytes:
    return TOTALS + _PAIR.pack(sink_id, number) + subscription.encode()


def subscription(sink_id: int, name: str) -> bytes:
    return SUBSCRIPTION + _U32.pack(sink_id) + name.encode()


def cursor_of(key: bytes) -> tuple[int, str, int]:
    """Sink, subscription and partition of a cursor's or its totals' key."""
    sink_id, number = partition_of(key)
    return sink_id, key[9:].decode(), number


def placing(sink_id: int) -> bytes:
    return PLACING + _U32.pack(sink_id)


def schema(sink_id: int, version: int) -> bytes:
    return SCHEMA + _PAIR.pack(sink_id, version)


def schema_of(key: bytes) -> tuple[int, int]:
    """Sink and version."""
    return partition_of(key)


def writer(sink_id: int, writer_id: str) -> bytes:
    return WRITER + _U32.pack(sink_id) + writer_id.encode()


def writer_of(key: bytes) -> tuple[int, str]:
    """Sink and writer id."""
    return sink_of(key), key[5:].decode()


def slots(sink_id: int, writer_id: str) -> Span:
    """All slots of one writer."""
    name = writer_id.encode()
    prefix = SLOT + _U32.pack(sink_id) + bytes([len(name)]) + name
    return prefix, prefix + b"\xff" * (_SLOT.size + 1)


def slot(sink_id: int, writer_id: str, number: int, sequence: int) -> bytes:
    name = writer_id.encode()
    return SLOT + _U32.pack(sink_id) + bytes([len(name)]) + name + _SLOT.pack(number, sequence % WINDOW)


def slot_partition(key: bytes) -> int:
    return int(_SLOT.unpack(key[-_SLOT.size :])[0])


def gap(sink_id: int, number: int, first: int, subscription: str = "") -> bytes:
    """Return the key of a gap of the partition, or of a subscription's own gap."""
    return GAP + _PLACE.pack(sink_id, number, first) + subscription.encode()


def gap_of(key: bytes) -> tuple[int, str]:
    """First offset and subscription."""
    return int(_PLACE.unpack_from(key, 1)[2]), key[1 + _PLACE.size :].decode()


def due(sink_id: int, number: int, *, bulk: bool, first: int) -> bytes:
    return DUE + _DUE.pack(sink_id, number, bulk, first)


def due_of(key: bytes) -> tuple[int, int, bool, int]:
    """Sink, partition, whether bulk, and first page number."""
    sink_id, number, bulk, first = _DUE.unpack_from(key, 1)
    return sink_id, number, bool(bulk), first


def quarantine(sink_id: int, number: int, page: int) -> bytes:
    return QUARANTINE + _PLACE.pack(sink_id, number, page)


def stage(sink_id: int, number: int) -> bytes:
    return STAGE + _STAGE.pack(sink_id, number)


def stage_of(key: bytes) -> int:
    """Number of a stage, from its key or that of one of its pages."""
    return int(_STAGE.unpack_from(key, 1)[1])


def staged(sink_id: int, number: int, at: int, sequence: int) -> bytes:
    return STAGED + _STAGED.pack(sink_id, number, at, sequence)


def staged_of(key: bytes) -> tuple[int, int, int]:
    """Number of the stage, partition and sequence."""
    _, number, at, sequence = _STAGED.unpack_from(key, 1)
    return number, at, sequence


def stages(sink_id: int, first: int, last: int) -> tuple[Span, Span]:
    """Stages with numbers from ``first`` to ``last``, and all their pages."""
    low, high = _STAGE.pack(sink_id, first), _STAGE.pack(sink_id, last + 1)
    return (STAGE + low, STAGE + high), (STAGED + low, STAGED + high)


def producer(sink_id: int, name: str) -> bytes:
    return PRODUCER + _U32.pack(sink_id) + name.encode()


def epochs(sink_id: int, name: str, first: int = 0) -> Span:
    """Epochs of a producer from ``first`` on."""
    prefix = EPOCH + _of_producer(sink_id, name)
    return prefix + _U64.pack(first), prefix + b"\xff" * (_U64.size + 1)


def epoch(sink_id: int, name: str, number: int) -> bytes:
    return epochs(sink_id, name, number)[0]


def epoch_stages(sink_id: int, name: str, number: int, at: int) -> bytes:
    return EPOCH_STAGES + _of_producer(sink_id, name) + _U64.pack(number) + _U32.pack(at)


def all_epoch_stages(sink_id: int, name: str, number: int | None = None) -> Span:
    """Stages of all partitions of an epoch, or of all epochs of a producer."""
    prefix = EPOCH_STAGES + _of_producer(sink_id, name)
    if number is not None:
        return prefix + _U64.pack(number), prefix + _U64.pack(number) + b"\xff" * (_U32.size + 1)
    return prefix, prefix + b"\xff" * (_U64.size + _U32.size + 1)


def _of_producer(sink_id: int, name: str) -> bytes:
    encoded = name.encode()
    return _U32.pack(sink_id) + bytes([len(encoded)]) + encoded
