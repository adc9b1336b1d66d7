"""Producer of epochs in a sink, with its last epoch. Deleted together with its epochs."""

from __future__ import annotations

from typing import Final

from forebay.broker.core.epochs.values import ProducerRecord
from forebay.broker.core.writes import DropProducer, PutProducer
from forebay.broker.storage.records.epochs.epoch import EPOCH, STAGE_ORDER, epochs_from
from forebay.broker.storage.records.kind import Kind
from forebay.broker.storage.records.sealed import json_record
from forebay.broker.storage.store.contract import Operation


def _drop(write: DropProducer) -> list[Operation]:
    sink, name = write.sink, write.producer
    return [
        EPOCH.delete_range(epochs_from(sink, name)),
        STAGE_ORDER.delete_range(STAGE_ORDER.under(sink, name)),
        PRODUCER.delete(PRODUCER.key(sink, name)),
    ]


PRODUCER: Final = Kind(
    name="producer",
    prefix=b"\x24",
    layout="sink u32, producer text",
    codec=json_record(ProducerRecord, "a producer"),
    lives="until it has no page and no stage left, and was idle for the writer time limit",
    damaged="rebuilt from its last epoch",
    into=lambda sink: sink.producers,
    puts=PutProducer,
    writes={DropProducer: _drop},
)
