"""Brokers of a fleet that answer with the sinks that a test gives them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import grpc

from forebay.v1 import admin_service_pb2, sink_pb2, sink_service_pb2
from tests.support.calls.wire_fake import Handler, WireFake


@contextmanager
def fleet_of(sinks: Mapping[str, Sequence[str]]) -> Iterator[dict[str, WireFake]]:
    """Run one owner per shard, which lists the names of sinks under its key; yield them by shard."""
    with ExitStack() as stack:
        owners = {shard: stack.enter_context(WireFake()) for shard in sinks}
        shards = [
            admin_service_pb2.Shard(name=shard, endpoint=owner.address, owner_epoch=1)
            for shard, owner in owners.items()
        ]
        for shard, owner in owners.items():
            listed = admin_service_pb2.ListShardsResponse(shard=shard, shards=shards)
            owner.handlers |= {"ListShards": _answer(listed), "ListSinks": _pages(sinks[shard])}
        yield owners


def _answer(response: Any) -> Handler:
    return lambda request, context: response


def _pages(names: Sequence[str]) -> Handler:
    """Return a handler that lists one sink per page."""

    def list_sinks(
        request: sink_service_pb2.ListSinksRequest, context: grpc.ServicerContext
    ) -> sink_service_pb2.ListSinksResponse:
        at = int(request.page_token or 0)
        following = str(at + 1) if at + 1 < len(names) else ""
        return sink_service_pb2.ListSinksResponse(
            sinks=[sink_pb2.Sink(name=name) for name in names[at : at + 1]], next_page_token=following
        )

    return list_sinks
