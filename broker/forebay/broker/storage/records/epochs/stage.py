"""Stage of an attempt to write an epoch. Written with its first page."""

from __future__ import annotations

import struct
from typing import Final

from forebay.broker.core.epochs.values import StageRecord
from forebay.broker.core.writes import DropStages, PutStage
from forebay.broker.storage.records.epochs.staged_page import STAGED_PAGE
from forebay.broker.storage.records.kind import Kind, Span
from forebay.broker.storage.records.sealed import json_record
from forebay.broker.storage.store.contract import Operation

_KEY: Final = struct.Struct(">IQ")


def _put(write: PutStage) -> list[Operation]:
    return [STAGE.put(STAGE.key(write.sink, write.stage.number), write.stage)]


def _drop(write: DropStages) -> list[Operation]:
    sink, first, last = write.sink, write.first, write.last
    pages = STAGED_PAGE.delete_range(STAGED_PAGE.of_stages(sink, first, last))
    if first == last:  # what is deleted by range slows reads that cross it
        return [STAGE.delete(STAGE.key(sink, first)), pages]
    return [STAGE.delete_range(STAGE.between(sink, first, last)), pages]


class _Stages(Kind[StageRecord]):
    layout = "sink u32, stage number u64"

    def key(self, sink: int, number: int) -> bytes:
        return self.prefix + _KEY.pack(sink, number)

    def within(self, key: bytes) -> int:
        return int(_KEY.unpack_from(key, 1)[1])

    def between(self, sink: int, first: int, last: int) -> Span:
        """Return the keys of the stages from ``first`` to ``last``."""
        return self.key(sink, first), self.key(sink, last + 1)


STAGE: Final = _Stages(
    name="stage",
    prefix=b"\x22",
    codec=json_record(StageRecord, "a stage"),
    lives="until its epoch is committed, or it is discarded",
    damaged="discarded with its pages: its epoch is rejected as incomplete, and written again",
    into=lambda sink: sink.stages,
    writes={PutStage: _put, DropStages: _drop},
)
