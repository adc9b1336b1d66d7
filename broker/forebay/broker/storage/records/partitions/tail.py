"""Tail of a partition: its end, and totals of what was appended. Written with every append."""

from __future__ import annotations

from typing import Final

from forebay.broker.core.partition.log import Tail
from forebay.broker.core.writes import PutTail
from forebay.broker.storage.records.kind import Kind
from forebay.broker.storage.records.sealed import flat

TAIL: Final = Kind(
    name="tail",
    prefix=b"\x11",
    layout="sink u32, partition u32",
    codec=flat(Tail, ">QQQqq"),
    lives="the sink's life",
    damaged="recounted from the index; if that is damaged too, offsets are skipped so that none is reused",
    surveyed=True,
    into=lambda sink: sink.tails,
    puts=PutTail,
)
