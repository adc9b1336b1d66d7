"""Subscription of a sink, beside its cursors and totals. They are deleted together."""

from __future__ import annotations

import json
from typing import Final

from forebay.broker.core.partition.position import EARLIEST, At, Position
from forebay.broker.core.writes import DropSubscription, PutSubscription, SubscriptionRecord
from forebay.broker.storage.records.kind import Kind, Replaced
from forebay.broker.storage.records.partitions.cursor import CURSOR, TOTALS
from forebay.broker.storage.records.sealed import Codec, Undecodable, as_json, opened
from forebay.broker.storage.store.contract import Operation


def _decode(value: bytes) -> SubscriptionRecord:
    try:
        stored = json.loads(opened(value))
        start = stored["start"]
        offsets = tuple((int(partition), int(offset)) for partition, offset in start["offsets"])
        position = Position(At(start["at"]), int(start["number"]), offsets)
        made_at_us = int(stored["created_at_us"])
        incarnation = str(stored.get("incarnation") or f"{made_at_us & (1 << 64) - 1:016x}")
        request_id = str(stored.get("request_id", ""))
        return SubscriptionRecord(stored["name"], made_at_us, position, incarnation, request_id)
    except (ValueError, KeyError, TypeError) as error:
        raise Undecodable(f"not a subscription: {error}") from error


def _drop(write: DropSubscription) -> list[Operation]:
    gone = [
        kind.delete(kind.key(write.sink, partition, write.name))
        for partition in range(write.partitions)
        for kind in (CURSOR, TOTALS)
    ]
    return [SUBSCRIPTION.delete(SUBSCRIPTION.key(write.sink, write.name)), *gone]


def _replaced(sink: int, name: str) -> Replaced:
    record = SubscriptionRecord(name, 0, EARLIEST, "0" * 16)
    return Replaced(f"`{name}` stays, its time of creation is unknown", record, PutSubscription(sink, record))


SUBSCRIPTION: Final = Kind(
    name="subscription",
    prefix=b"\x19",
    layout="sink u32, name text",
    codec=Codec(as_json, _decode),
    lives="until it is deleted",
    damaged="stays, with an unknown time and start position",
    into=lambda sink: sink.subscriptions,
    replaced=_replaced,
    puts=PutSubscription,
    writes={DropSubscription: _drop},
)
