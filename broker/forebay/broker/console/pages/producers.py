"""Spark queries and batches that write: their epochs, and what they have staged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from starlette.requests import Request

from forebay.broker.console.pages.page import Page, PageSource
from forebay.broker.rpc.epochs.service import EpochServicer
from forebay.broker.runtime.resources.slices import Slices
from forebay.v1 import epoch_service_pb2 as pb

PRODUCERS: Final = 200
"""Producers on the page: those with staged records first, then the newest."""

OF_A_SINK: Final = 1_000
"""Producers of a sink that are read."""


@dataclass(frozen=True, slots=True)
class ProducerLine:
    """One producer."""

    sink: str
    name: str
    """Name of the write, or the producer's own name."""

    last_epoch: int | None
    committed_at_us: int | None
    run: str
    ticket: int
    """A run with a lower ticket is fenced."""

    staged_tokens: int
    staged_records: int
    staged_bytes: int
    staged_at_us: int | None
    """Time at which the oldest staged part was opened."""

    application: str
    """Spark application, if the writer named one."""


@dataclass(frozen=True, slots=True)
class ProducerList:
    """Data of the page."""

    total: int
    now_us: int
    producers: tuple[ProducerLine, ...]


async def producers(source: PageSource, request: Request) -> Page:
    """Return the producers of the sinks that a principal may see."""
    service, found, slices = EpochServicer(source.broker), list[ProducerLine](), Slices()
    for figures in await source.visible(request):
        await slices.turn()
        if figures.name in source.broker.sinks and source.broker.sinks[figures.name].staging.producers.known:
            asked = pb.ListEpochsRequest(sink=figures.name, page_size=OF_A_SINK)
            found += [_line(figures.name, one) for one in (await service.ListEpochs(asked, None)).producers]
    found.sort(key=lambda one: (-one.staged_records, -(one.committed_at_us or 0), one.sink, one.name))
    data = ProducerList(len(found), source.broker.clock.wall_us(), tuple(found[:PRODUCERS]))
    return Page("producers.html", "Spark", data, "forebay producers list", "/producers")


def _line(sink: str, one: pb.Producer) -> ProducerLine:
    return ProducerLine(
        sink=sink,
        name=one.write_name or one.producer,
        last_epoch=one.last_epoch if one.HasField("last_epoch") else None,
        committed_at_us=one.committed_at.ToMicroseconds() if one.HasField("committed_at") else None,
        run=one.run,
        ticket=one.ticket,
        staged_tokens=one.staged_tokens,
        staged_records=one.staged_records,
        staged_bytes=one.staged_bytes,
        staged_at_us=one.staged_at.ToMicroseconds() if one.HasField("staged_at") else None,
        application=one.application,
    )
