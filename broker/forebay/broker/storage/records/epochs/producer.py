"""Producer of epochs in a sink, with its last one. Deleted together with its epochs."""

from __future__ import annotations

from typing import Final

from forebay.broker.core.epochs.values import ProducerRecord
from forebay.broker.core.writes import DropProducer, PutProducer
from forebay.broker.storage.records.epochs.epoch import EPOCH
from forebay.broker.storage.records.epochs.stage_order import STAGE_ORDER
from forebay.broker.storage.records.kind import Named
from forebay.broker.storage.records.sealed import json_record
from forebay.broker.storage.store.contract import Operation


def _put(write: PutProducer) -> list[Operation]:
    return [PRODUCER.put(PRODUCER.key(write.sink, write.producer.producer), write.producer)]


def _drop(write: DropProducer) -> list[Operation]:
    sink, name = write.sink, write.producer
    return [
        EPOCH.delete_range(EPOCH.from_number(sink, name)),
        STAGE_ORDER.delete_range(STAGE_ORDER.of_producer(sink, name)),
        PRODUCER.delete(PRODUCER.key(sink, name)),
    ]


PRODUCER: Final = Named(
    name="producer",
    prefix=b"\x24",
    codec=json_record(ProducerRecord, "a producer"),
    lives="until nothing of it is left and it has idled out",
    damaged="that of its last epoch",
    into=lambda sink: sink.producers,
    writes={PutProducer: _put, DropProducer: _drop},
)
