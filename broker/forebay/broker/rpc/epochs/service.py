"""EpochService: tickets, commits and their queries. Only converts and delegates."""

from __future__ import annotations

from typing import Any, Final

from forebay.broker.core.epochs.values import TOKENS_MAX, check_apart, checked_token
from forebay.broker.core.errors import InvalidValue
from forebay.broker.rpc.epochs import convert as epochs
from forebay.broker.rpc.sinks.page_tokens import page_token, place_of
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.epochs.stage import Stage
from forebay.errors.reasons import Reason
from forebay.v1 import epoch_service_pb2 as pb
from forebay.v1 import epoch_service_pb2_grpc as pb_grpc

PAGE: Final = (100, 1_000)


class EpochServicer(pb_grpc.EpochServiceServicer):
    """Epochs over gRPC."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def TakeTicket(self, request: pb.TakeTicketRequest, context: Any) -> pb.TakeTicketResponse:
        self._broker.check_serving()
        if request.sink:
            self._broker.sink(request.sink, request.incarnation)
        return pb.TakeTicketResponse(ticket=self._broker.epochs.take_ticket())

    async def CommitEpoch(self, request: pb.CommitEpochRequest, context: Any) -> pb.CommitEpochResponse:
        self._broker.check_serving()
        commits = [epochs.wanted(each).checked() for each in request.commits]
        check_apart(commits)
        named = [each.incarnation for each in request.commits]
        targets = [(self._broker.sink(one.claim.sink, which), one) for one, which in zip(commits, named, strict=True)]
        outcome = await self._broker.epochs.commit(targets)
        found = [epochs.epoch(buffer.name, record) for (buffer, _), record in zip(targets, outcome.epochs, strict=True)]
        return pb.CommitEpochResponse(epochs=found, already_committed=outcome.already)

    async def AbortEpoch(self, request: pb.AbortEpochRequest, context: Any) -> pb.AbortEpochResponse:
        self._broker.check_serving()
        if len(request.tokens) > TOKENS_MAX:
            raise InvalidValue(Reason.INVALID_EPOCH, "tokens", f"{len(request.tokens)} tokens", f"up to {TOKENS_MAX}")
        tokens = [checked_token(token, "tokens") for token in request.tokens]
        staging = self._broker.sink(request.sink, request.incarnation).staging
        return pb.AbortEpochResponse(aborted=await staging.abort(request.producer, request.epoch, tokens))

    async def GetEpoch(self, request: pb.GetEpochRequest, context: Any) -> pb.GetEpochResponse:
        buffer = self._broker.sink(request.sink, request.incarnation)
        number = request.epoch if request.HasField("epoch") else None
        record = await self._broker.epochs.get(buffer, request.producer, number)
        return pb.GetEpochResponse(epoch=epochs.epoch(request.sink, record))

    async def ListEpochs(self, request: pb.ListEpochsRequest, context: Any) -> pb.ListEpochsResponse:
        buffer = self._broker.sink(request.sink)
        staging, after = buffer.staging, place_of(buffer.record, request.page_token)
        size = min(request.page_size or PAGE[0], PAGE[1])
        names = sorted(name for name in staging.producers.known if name > after)
        chosen, more = names[:size], len(names) > size
        staged: dict[str, list[Stage]] = {name: [] for name in chosen}
        for stage in staging.stages:
            if stage.record.producer in staged:
                staged[stage.record.producer].append(stage)
        clock = self._broker.clock
        now, now_us = clock.monotonic(), clock.wall_us()
        found = [
            epochs.producer(
                staging.producers.known[name],
                staged[name],
                application=staging.producers.applications.get(name, ""),
                wall_us=lambda at: now_us - round((now - at) * 1e6),
            )
            for name in chosen
        ]
        token = page_token(buffer.record, chosen[-1] if more else "")
        return pb.ListEpochsResponse(producers=found, next_page_token=token)
