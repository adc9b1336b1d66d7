"""Totals of the closed accounts of a subscription. Written with the cursor of the next account."""

from __future__ import annotations

from typing import Final

from forebay.broker.core.partition.account import Totals
from forebay.broker.core.writes import PutTotals
from forebay.broker.storage.records.kind import OfSubscription, Replaced
from forebay.broker.storage.records.sealed import flat


def _replaced(key: bytes) -> Replaced:
    name, partition = TOTALS.within(key)
    write = PutTotals(TOTALS.sink_of(key), name, partition, Totals())
    return Replaced(f"those of `{name}` begin at zero", write.totals, write, partition)


TOTALS: Final = OfSubscription(
    name="totals",
    prefix=b"\x1b",
    codec=flat(Totals, ">QQQQQ"),
    lives="the subscription's life",
    damaged="begin at zero",
    into=lambda sink: sink.totals,
    replaced=_replaced,
    puts=PutTotals,
)
