"""Stored values as bytes and back.

Every value is sealed: a CRC-32 of the rest, a layout version, the content. Hot values are packed structs, sinks are
JSON so that a person can read them. What does not check out raises ``Undecodable``; it is never guessed at.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from forebay.broker.core.epochs.values import EpochPart, EpochRecord, ProducerRecord, StagedPage, StagePart, StageRecord
from forebay.broker.core.partition.account import Totals
from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.log import Head, Tail
from forebay.broker.core.partition.pages import TRACES_MAX, DropReason, Entry, Gap, Part
from forebay.broker.core.partition.position import At, Position
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.partition.reservation import Held, Reserve
from forebay.broker.core.partition.retention import Mark, Marks
from forebay.broker.core.publish.writer import Slot
from forebay.broker.core.settings import SETTING_NAMES, SinkSettings
from forebay.broker.core.writes import PutAge, SchemaRecord, SinkRecord, SubscriptionRecord

_SEAL: Final = struct.Struct(">IB")
_VERSION: Final = 1
_U64: Final = struct.Struct(">Q")
_TAIL: Final = struct.Struct(">QQQqq")
_HEAD: Final = struct.Struct(">QQQQH")
_DROP: Final = struct.Struct(">BQ")
_CURSOR: Final = struct.Struct(">QQQQQQQQII")
_PAIR: Final = struct.Struct(">QQ")
_TRY: Final = struct.Struct(">QI")
_SLOT: Final = struct.Struct(">QQIQI")
_GAP: Final = struct.Struct(">QBqQI")
_AT_MOST: Final = 0x80
"""Beside a gap's reason: its records were never counted."""
_GAP_MORE: Final = struct.Struct(">qBH")
_ENTRY: Final = struct.Struct(">QBBIQqqQQH")
_PART: Final = struct.Struct(">IqB")
_DUE: Final = struct.Struct(">QQ")
_AGE: Final = struct.Struct(">QQQB")
_TOTALS: Final = struct.Struct(">QQQQQ")
_COUNT: Final = struct.Struct(">H")
_MARK: Final = struct.Struct(">Qq")
_RESERVE: Final = struct.Struct(">Qq")
_SCHEMA: Final = struct.Struct(">qII")
_HELD: Final = struct.Struct(">QQQI")
_STAGED: Final = struct.Struct(">QBBIII")
_EPOCH_PART: Final = struct.Struct(">IQQIQQQ")
_STAGE_PART: Final = struct.Struct(">QQI")
_PLACED: Final = struct.Struct(f"{_ENTRY.format}{_PART.format[1:]}")
"""An entry of one part, whose trace follows."""


class Undecodable(ValueError):
    """A stored value fails its checksum or has a layout that this version does not know."""


def _seal(content: bytes) -> bytes:
    return _SEAL.pack(zlib.crc32(content), _VERSION) + content


def _open(value: bytes) -> bytes:
    if len(value) < _SEAL.size:
        raise Undecodable(f"{len(value)} bytes are too few")
    crc, version = _SEAL.unpack_from(value)
    content = value[_SEAL.size :]
    if version != _VERSION:
        raise Undecodable(f"layout {version} is not known")
    if zlib.crc32(content) != crc:
        raise Undecodable("the checksum does not fit")
    return content


def encode_number(number: int) -> bytes:
    return _seal(_U64.pack(number))


def decode_number(value: bytes) -> int:
    return int(_unpack(_U64, _open(value))[0])


def encode_highest(number: int, records: int) -> bytes:
    return _seal(_PAIR.pack(number, records))


def decode_highest(value: bytes) -> tuple[int, int]:
    """Highest page number, and records ever stored."""
    content = _open(value)
    if len(content) == _U64.size:
        return int(_unpack(_U64, content)[0]), 0
    number, records = _unpack(_PAIR, content)
    return number, records


def _unpack(layout: struct.Struct, content: bytes, at: int = 0) -> tuple[Any, ...]:
    try:
        return layout.unpack_from(content, at)
    except struct.error as error:
        raise Undecodable(str(error)) from error


def encode_text(text: str) -> bytes:
    return _seal(text.encode())


def decode_text(value: bytes) -> str:
    return _text(_open(value))


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise Undecodable(str(error)) from error


def encode_sink(sink: SinkRecord) -> bytes:
    return _seal(json.dumps(asdict(sink), sort_keys=True).encode())


def decode_sink(value: bytes) -> SinkRecord:
    """Settings that this version does not know are left out; those that are missing take their default.

    A value of a wrong type stays as it is, for ``SinkSettings.corrected`` to tell of.
    """
    try:
        stored = json.loads(_open(value))
        settings = stored["settings"]
        if not isinstance(settings, dict):
            settings = {"partitions": [settings]}  # no number of partitions, whatever it is
        known = {name: settings[name] for name in SETTING_NAMES if name in settings}
        return SinkRecord(**{**stored, "settings": SinkSettings(**known)})
    except (ValueError, KeyError, TypeError) as error:
        raise Undecodable(f"not a sink: {error}") from error


def encode_tail(tail: Tail) -> bytes:
    return _seal(
        _TAIL.pack(tail.next_offset, tail.appended_bytes, tail.appended_pages, tail.accepted_at_us, tail.age_us)
    )


def decode_tail(value: bytes) -> Tail:
    return Tail(*_unpack(_TAIL, _open(value)))


def encode_head(head: Head) -> bytes:
    fixed = _HEAD.pack(head.earliest, head.removed_records, head.removed_bytes, head.removed_pages, len(head.dropped))
    return _seal(fixed + b"".join(_DROP.pack(reason, records) for reason, records in head.dropped))


def decode_head(value: bytes) -> Head:
    content = _open(value)
    earliest, records, size, pages, drops = _unpack(_HEAD, content)
    dropped = [_unpack(_DROP, content, _HEAD.size + index * _DROP.size) for index in range(drops)]
    return Head(earliest, records, size, pages, tuple((reason, count) for reason, count in dropped))


def encode_cursor(cursor: Cursor) -> bytes:
    fixed = _CURSOR.pack(
        cursor.start,
        cursor.watermark,
        cursor.acked,
        cursor.dead_lettered,
        cursor.dropped,
        cursor.skipped,
        cursor.told,
        cursor.sent,
        len(cursor.beyond),
        len(cursor.attempts),
    )
    ranges = b"".join(_PAIR.pack(first, end) for first, end in cursor.beyond)
    return _seal(fixed + ranges + b"".join(_TRY.pack(offset, tries) for offset, tries in cursor.attempts))


def decode_cursor(value: bytes) -> Cursor:
    content = _open(value)
    start, watermark, acked, dead, dropped, skipped, told, sent, ranges, tries = _unpack(_CURSOR, content)
    at = _CURSOR.size
    beyond = tuple(Range(*_unpack(_PAIR, content, at + index * _PAIR.size)) for index in range(ranges))
    at += ranges * _PAIR.size
    attempts = [_unpack(_TRY, content, at + index * _TRY.size) for index in range(tries)]
    return Cursor(
        start=start,
        watermark=watermark,
        beyond=beyond,
        acked=acked,
        dead_lettered=dead,
        dropped=dropped,
        skipped=skipped,
        attempts=tuple((offset, count) for offset, count in attempts),
        told=told,
        sent=sent,
    )


def encode_subscription(subscription: SubscriptionRecord) -> bytes:
    return _seal(json.dumps(asdict(subscription), sort_keys=True).encode())


def decode_subscription(value: bytes) -> SubscriptionRecord:
    try:
        stored = json.loads(_open(value))
        start = stored["start"]
        offsets = tuple((int(partition), int(offset)) for partition, offset in start["offsets"])
        position = Position(At(start["at"]), int(start["number"]), offsets)
        made_at_us = int(stored["created_at_us"])
        incarnation = str(stored.get("incarnation") or f"{made_at_us & (1 << 64) - 1:016x}")
        request_id = str(stored.get("request_id", ""))
        return SubscriptionRecord(stored["name"], made_at_us, position, incarnation, request_id)
    except (ValueError, KeyError, TypeError) as error:
        raise Undecodable(f"not a subscription: {error}") from error


def encode_totals(totals: Totals) -> bytes:
    return _seal(_TOTALS.pack(totals.acked, totals.dead_lettered, totals.dropped, totals.skipped, totals.seeks))


def decode_totals(value: bytes) -> Totals:
    return Totals(*_unpack(_TOTALS, _open(value)))


def encode_schema(schema: SchemaRecord) -> bytes:
    text = schema.spark_schema.encode()
    return _seal(
        _SCHEMA.pack(schema.registered_at_us, len(schema.arrow_schema), len(text)) + schema.arrow_schema + text
    )


def decode_schema(version: int, value: bytes) -> SchemaRecord:
    content = _open(value)
    registered_at_us, length, text = _unpack(_SCHEMA, content)
    at = _SCHEMA.size + length
    if len(content) != at + text:
        raise Undecodable(f"{len(content)} bytes are not {at + text}")
    try:
        return SchemaRecord(version, registered_at_us, content[_SCHEMA.size : at], content[at:].decode())
    except UnicodeDecodeError as error:
        raise Undecodable(str(error)) from error


def encode_marks(marks: Marks) -> bytes:
    return _seal(_COUNT.pack(len(marks)) + b"".join(_MARK.pack(mark.until, mark.at_us) for mark in marks))


def decode_marks(value: bytes) -> Marks:
    content = _open(value)
    [count] = _unpack(_COUNT, content)
    return tuple(Mark(*_unpack(_MARK, content, _COUNT.size + index * _MARK.size)) for index in range(count))


def encode_slot(epoch: int, slot: Slot) -> bytes:
    return _seal(_SLOT.pack(epoch, slot.sequence, slot.crc32, slot.first, slot.count))


def decode_slot(value: bytes) -> tuple[int, Slot]:
    """Epoch of the writer, and the slot."""
    epoch, sequence, crc32, first, count = _unpack(_SLOT, _open(value))
    return epoch, Slot(sequence, crc32, first, count)


def encode_gap(gap: Gap) -> bytes:
    """Encode a gap; the fields of merged and rejected gaps come last, and only if they are set."""
    reason = int(gap.reason) | (_AT_MOST if gap.at_most else 0)
    content = _GAP.pack(gap.end, reason, gap.at_us, gap.size, gap.pages)
    if gap.since_us is not None or gap.merged or gap.detail:
        detail = gap.detail.encode()
        content += _GAP_MORE.pack(gap.first_at_us, len(gap.merged), len(detail))
        content += b"".join(_DROP.pack(reason, records) for reason, records in gap.merged) + detail
    return _seal(content)


def decode_gap(first: int, value: bytes, subscription: str = "") -> Gap:
    content = _open(value)
    end, reason, at_us, size, pages = _unpack(_GAP, content)
    since_us: int | None = None
    merged: list[tuple[Any, ...]] = []
    text = b""
    if len(content) > _GAP.size:
        first_at_us, reasons, length = _unpack(_GAP_MORE, content, _GAP.size)
        at = _GAP.size + _GAP_MORE.size
        merged = [_unpack(_DROP, content, at + index * _DROP.size) for index in range(reasons)]
        text = content[at + reasons * _DROP.size :]
        since_us = first_at_us if merged else None
        if len(text) != length:
            raise Undecodable(f"{len(text)} characters of {length}")
    counts = tuple((why, records) for why, records in merged)
    try:
        why, detail = DropReason(reason & ~_AT_MOST), text.decode()
        at_most = bool(reason & _AT_MOST)
        return Gap(first, end, why, at_us, size, pages, since_us, counts, subscription, detail, at_most)
    except ValueError as error:
        raise Undecodable(f"a gap of an unknown kind: {error}") from error


def encode_reserve(reserve: Reserve) -> bytes:
    return _seal(_RESERVE.pack(reserve.end, -1 if reserve.slot is None else reserve.slot))


def decode_reserve(value: bytes) -> Reserve:
    end, slot = _unpack(_RESERVE, _open(value))
    return Reserve(end, slot if slot >= 0 else None)


def encode_held(held: tuple[Held, ...]) -> bytes:
    return _seal(b"".join(_HELD.pack(run.first, run.end, run.size, run.pages) for run in held))


def decode_held(value: bytes) -> tuple[Held, ...]:
    content = _open(value)
    return tuple(Held(*_unpack(_HELD, content, at)) for at in range(0, len(content), _HELD.size))


def encode_due(last: int, size: int) -> bytes:
    return _seal(_DUE.pack(last, size))


def encode_age(age: PutAge) -> bytes:
    return _seal(_AGE.pack(age.age_us, age.wall_us, age.boot_us, len(age.boot)) + age.boot)


def decode_age(value: bytes) -> PutAge:
    """Return the clocks as they were stored; stores of before have neither boot nor boot clock."""
    content = _open(value)
    if len(content) == _DUE.size:
        return PutAge(*_unpack(_DUE, content))
    age_us, wall_us, boot_us, named = _unpack(_AGE, content)
    boot = content[_AGE.size :]
    if len(boot) != named:
        raise Undecodable(f"the name of a boot has {len(boot)} bytes instead of {named}")
    return PutAge(age_us, wall_us, boot, boot_us)


def decode_due(value: bytes) -> tuple[int, int]:
    """Last page number, and bytes."""
    last, size = _unpack(_DUE, _open(value))
    return last, size


def encode_entry(entry: Entry) -> bytes:
    fixed = _ENTRY.pack(
        entry.number,
        entry.bulk,
        entry.encoding,
        entry.count,
        entry.size,
        entry.accepted_at_us,
        entry.age_us,
        entry.bytes_before,
        entry.pages_before,
        len(entry.parts),
    )
    parts: list[bytes] = []
    for index, part in enumerate(entry.parts):
        trace = part.traceparent.encode() if index < TRACES_MAX else b""
        parts.append(_PART.pack(part.first - entry.base, part.accepted_at_us, len(trace)) + trace)
    return _seal(fixed + b"".join(parts))


def decode_entry(base: int, value: bytes) -> Entry:
    content = _open(value)
    number, bulk, encoding, count, size, accepted, age, bytes_before, pages_before, parts = _unpack(_ENTRY, content)
    at = _ENTRY.size
    found: list[Part] = []
    for _ in range(parts):
        first, accepted_at, length = _unpack(_PART, content, at)
        at += _PART.size
        found.append(Part(base + first, accepted_at, _text(content[at : at + length])))
        at += length
    return Entry(
        base,
        count,
        number,
        bool(bulk),
        size,
        encoding,
        accepted,
        age,
        bytes_before,
        pages_before,
        tuple(found),
    )


def encode_placed(
    before: Tail, accepted_at_us: int, age_us: int, pages: Iterable[StagedPage]
) -> Iterator[tuple[int, bytes]]:
    """Yield base offsets and encoded entries of staged pages that are placed behind an end.

    A commit has a million of them: this takes a tenth of the time.
    """
    base, bytes_before, pages_before = before.next_offset, before.appended_bytes, before.appended_pages
    pack, seal, crc32 = _PLACED.pack, _SEAL.pack, zlib.crc32
    for page in pages:
        trace = page.traceparent.encode()
        content = pack(
            page.number,
            page.bulk,
            page.encoding,
            page.count,
            page.size,
            accepted_at_us,
            age_us,
            bytes_before,
            pages_before,
            1,
            0,
            accepted_at_us,
            len(trace),
        )
        if trace:
            content += trace
        yield base, seal(crc32(content), _VERSION) + content
        base += page.count
        bytes_before += page.size
        pages_before += 1


def encode_quarantined(entry: Entry) -> bytes:
    """The entry of a page that is kept aside, with its base offset, which no key has then."""
    return _seal(_U64.pack(entry.base) + encode_entry(entry))


def decode_quarantined(value: bytes) -> Entry:
    content = _open(value)
    [base] = _unpack(_U64, content)
    return decode_entry(base, content[_U64.size :])


def encode_stage(stage: StageRecord) -> bytes:
    return _seal(json.dumps(asdict(stage), sort_keys=True).encode())


def decode_stage(value: bytes) -> StageRecord:
    try:
        return StageRecord(**json.loads(_open(value)))
    except (ValueError, TypeError) as error:
        raise Undecodable(f"not a stage: {error}") from error


def encode_staged(page: StagedPage) -> bytes:
    fixed = _STAGED.pack(page.number, page.bulk, page.encoding, page.count, page.size, page.crc32)
    return _seal(fixed + page.traceparent.encode())


def decode_staged(value: bytes) -> StagedPage:
    content = _open(value)
    number, bulk, encoding, count, size, crc32 = _unpack(_STAGED, content)
    return StagedPage(number, bool(bulk), encoding, count, size, crc32, _text(content[_STAGED.size :]))


def encode_producer(producer: ProducerRecord) -> bytes:
    return _seal(json.dumps(asdict(producer), sort_keys=True).encode())


def decode_producer(value: bytes) -> ProducerRecord:
    try:
        return ProducerRecord(**json.loads(_open(value)))
    except (ValueError, TypeError) as error:
        raise Undecodable(f"not a producer: {error}") from error


def encode_epoch(epoch: EpochRecord) -> bytes:
    """One line of JSON for people, then the parts, one per partition."""
    facts = asdict(replace(epoch, parts=()))  # not the parts: it would copy each
    parts = (
        _EPOCH_PART.pack(part.partition, part.base, part.records, part.pages, part.size, part.first, part.last)
        for part in epoch.parts
    )
    del facts["parts"]
    return _seal(json.dumps(facts, sort_keys=True).encode() + b"\n" + b"".join(parts))


def decode_epoch(value: bytes) -> EpochRecord:
    facts, _, packed = _open(value).partition(b"\n")
    try:
        parts = tuple(EpochPart(*found) for found in _EPOCH_PART.iter_unpack(packed))
        return EpochRecord(**json.loads(facts), parts=parts)
    except (ValueError, TypeError, struct.error) as error:
        raise Undecodable(f"not an epoch: {error}") from error


def encode_epoch_stages(stages: Sequence[int]) -> bytes:
    """Number, records and pages of each stage, one behind the other."""
    layout = struct.Struct(">" + _STAGE_PART.format[1:] * (len(stages) // 3))
    return _seal(layout.pack(*stages))


def decode_epoch_stages(value: bytes) -> tuple[StagePart, ...]:
    """In the order of their pages."""
    try:
        return tuple(StagePart(*found) for found in _STAGE_PART.iter_unpack(_open(value)))
    except struct.error as error:
        raise Undecodable(f"not the stages of an epoch: {error}") from error


def encode_placing(epochs: Sequence[tuple[str, int]]) -> bytes:
    return _seal(json.dumps(epochs).encode())


def decode_placing(value: bytes) -> tuple[tuple[str, int], ...]:
    """Producers and numbers of the epochs that are being committed."""
    try:
        return tuple((str(producer), int(epoch)) for producer, epoch in json.loads(_open(value)))
    except (ValueError, TypeError) as error:
        raise Undecodable(f"not a placing commit: {error}") from error
