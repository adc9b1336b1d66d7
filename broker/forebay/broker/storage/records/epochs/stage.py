"""Stage of an attempt to write an epoch, and its pages, which no reader sees yet.

A stage is written with its first page. The commit of the epoch adds the pages to the index.
"""

from __future__ import annotations

import struct
from typing import Final

from forebay.broker.core.epochs.values import StagedPage, StageRecord
from forebay.broker.core.writes import DropStages, PutStage, PutStaged
from forebay.broker.storage.records.kind import Kind
from forebay.broker.storage.records.sealed import Codec, json_record, opened, seal, text_of, unpack
from forebay.broker.storage.store.contract import Operation
from forebay.broker.storage.stored_sink import StoredSink

_LAYOUT: Final = struct.Struct(">QBBIII")


def _encode_page(page: StagedPage) -> bytes:
    fixed = _LAYOUT.pack(page.number, page.bulk, page.encoding, page.count, page.size, page.crc32)
    return seal(fixed + page.traceparent.encode())


def _decode_page(value: bytes) -> StagedPage:
    content = opened(value)
    number, bulk, encoding, count, size, crc32 = unpack(_LAYOUT, content)
    return StagedPage(number, bool(bulk), encoding, count, size, crc32, text_of(content[_LAYOUT.size :]))


class _StagedPages(Kind[StagedPage]):
    def load(self, sink: StoredSink, key: bytes, value: bytes) -> None:
        _, stage, partition, sequence = self.parts(key)
        sink.staged.setdefault(stage, {})[partition, sequence] = self.codec.decode(value)


STAGED_PAGE: Final = _StagedPages(
    name="staged page",
    prefix=b"\x23",
    layout="sink u32, stage u64, partition u32, sequence u64",
    codec=Codec(_encode_page, _decode_page),
    lives="as long as its stage",
    damaged="its stage is discarded",
    into=lambda sink: sink.staged,
    puts=PutStaged,
)


def _drop(write: DropStages) -> list[Operation]:
    sink, first, end = write.sink, write.first, write.last + 1
    pages = STAGED_PAGE.delete_range(STAGED_PAGE.between(sink, first=first, end=end))
    if first == write.last:  # deleted ranges slow down reads across them
        return [STAGE.delete(STAGE.key(sink, first)), pages]
    return [STAGE.delete_range(STAGE.between(sink, first=first, end=end)), pages]


STAGE: Final = Kind(
    name="stage",
    prefix=b"\x22",
    layout="sink u32, number u64",
    codec=json_record(StageRecord, "a stage"),
    lives="until its epoch is committed, or the stage is discarded",
    damaged="discarded with its pages: its epoch is rejected as incomplete, and written again",
    into=lambda sink: sink.stages,
    puts=PutStage,
    writes={DropStages: _drop},
)
