"""Gap of a partition, or of one subscription: offsets without records, and the reason.

The fields of merged and rejected gaps come last, and only if they are set.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from forebay.broker.core.partition.pages import DropReason, Gap
from forebay.broker.core.writes import DropGap, PutGap
from forebay.broker.storage.records.kind import Kind
from forebay.broker.storage.records.sealed import Codec, Undecodable, opened, seal, unpack
from forebay.broker.storage.stored_sink import StoredSink

_LAYOUT: Final = struct.Struct(">QBqQI")
_MORE: Final = struct.Struct(">qBH")
_DROP: Final = struct.Struct(">BQ")
_AT_MOST: Final = 0x80
"""Flag beside the reason: the number of records is an upper bound."""


def _encode(gap: Gap) -> bytes:
    reason = int(gap.reason) | (_AT_MOST if gap.at_most else 0)
    content = _LAYOUT.pack(gap.end, reason, gap.at_us, gap.size, gap.pages)
    if gap.since_us is not None or gap.merged or gap.detail:
        detail = gap.detail.encode()
        content += _MORE.pack(gap.first_at_us, len(gap.merged), len(detail))
        content += b"".join(_DROP.pack(reason, records) for reason, records in gap.merged) + detail
    return seal(content)


def decode_gap(value: bytes, first: int = 0, subscription: str = "") -> Gap:
    """Return a stored gap. Raises ``Undecodable``."""
    content = opened(value)
    end, reason, at_us, size, pages = unpack(_LAYOUT, content)
    since_us: int | None = None
    merged: list[tuple[Any, ...]] = []
    text = b""
    if len(content) > _LAYOUT.size:
        first_at_us, reasons, length = unpack(_MORE, content, _LAYOUT.size)
        at = _LAYOUT.size + _MORE.size
        merged = [unpack(_DROP, content, at + index * _DROP.size) for index in range(reasons)]
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
        raise Undecodable(f"gap with an unknown reason: {error}") from error


class _Gaps(Kind[Gap]):
    def load(self, sink: StoredSink, key: bytes, value: bytes) -> None:
        _, partition, first, subscription = self.parts(key)
        sink.gaps.setdefault(partition, []).append(decode_gap(value, first, subscription))


GAP: Final = _Gaps(
    name="gap",
    prefix=b"\x16",
    layout="sink u32, partition u32, first u64, subscription text",
    codec=Codec(_encode, decode_gap),
    lives="until it is merged into another; of a subscription until a seek to before it, or its deletion",
    damaged="recounted from the index and the other gaps",
    surveyed=True,
    into=lambda sink: sink.gaps,
    puts=PutGap,
    drops=DropGap,
)
