"""Page of a stage, which no reader sees yet. The index names it when its epoch is committed."""

from __future__ import annotations

import struct
from typing import Final

from forebay.broker.core.epochs.values import StagedPage
from forebay.broker.core.writes import PutStaged
from forebay.broker.storage.records.kind import Kind, Span
from forebay.broker.storage.records.sealed import Codec, opened, seal, text_of, unpack
from forebay.broker.storage.stored_sink import StoredSink

_KEY: Final = struct.Struct(">IQIQ")
_STAGE: Final = struct.Struct(">IQ")
_LAYOUT: Final = struct.Struct(">QBBIII")


def _encode(page: StagedPage) -> bytes:
    fixed = _LAYOUT.pack(page.number, page.bulk, page.encoding, page.count, page.size, page.crc32)
    return seal(fixed + page.traceparent.encode())


def _decode(value: bytes) -> StagedPage:
    content = opened(value)
    number, bulk, encoding, count, size, crc32 = unpack(_LAYOUT, content)
    return StagedPage(number, bool(bulk), encoding, count, size, crc32, text_of(content[_LAYOUT.size :]))


class _StagedPages(Kind[StagedPage]):
    layout = "sink u32, stage number u64, partition u32, sequence u64"

    def key(self, sink: int, stage: int, partition: int, sequence: int) -> bytes:
        return self.prefix + _KEY.pack(sink, stage, partition, sequence)

    def within(self, key: bytes) -> tuple[int, int, int]:
        """Return stage, partition and sequence."""
        _, stage, partition, sequence = _KEY.unpack_from(key, 1)
        return stage, partition, sequence

    def of_stages(self, sink: int, first: int, last: int) -> Span:
        """Return the keys of all pages of the stages from ``first`` to ``last``."""
        return self.prefix + _STAGE.pack(sink, first), self.prefix + _STAGE.pack(sink, last + 1)

    def take(self, sink: StoredSink, key: bytes, value: bytes) -> None:
        stage, partition, sequence = self.within(key)
        sink.staged.setdefault(stage, {})[partition, sequence] = self.codec.decode(value)


STAGED_PAGE: Final = _StagedPages(
    name="staged page",
    prefix=b"\x23",
    codec=Codec(_encode, _decode),
    lives="as its stage",
    damaged="its stage is discarded",
    into=lambda sink: sink.staged,
    puts=PutStaged,
)
