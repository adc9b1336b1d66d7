"""Exactly-once writing: commits staged pages atomically.

    stage = Stage(producer="nightly", epoch=7, run="2026-01-31", ticket=client.epochs.take_ticket("orders"))
    with client.publisher("orders", stage=stage) as publisher:
        publisher.send_many(values)
    client.epochs.commit([EpochCommit.of("orders", stage, [publisher.staged()])])

A commit is idempotent: it may be repeated until its outcome is known.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Final

from forebay.client.errors import InvalidArgument
from forebay.client.settings import RetryPolicy, check
from forebay.client.transport.channel import Channels
from forebay.client.transport.operations import Blocking, operation, stream
from forebay.client.transport.service import Service
from forebay.client.values.convert import value
from forebay.client.values.epochs import CommittedEpochs, Epoch, EpochCommit, Producer, Stage, StagedToken
from forebay.errors.reasons import Reason
from forebay.v1 import buffer_service_pb2
from forebay.v1 import epoch_service_pb2 as pb
from forebay.v1.epoch_service_pb2_grpc import EpochServiceStub

PRODUCERS_PER_CALL: Final = 1_000
PATIENCE_S: Final = 120.0
"""Default time for which a commit is retried."""


class EpochCalls:
    """Epochs of a client's sinks. All methods raise ``SinkNotFound``."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._service = Service(channels, EpochServiceStub)

    @operation
    async def take_ticket(self, sink: str, *, incarnation: str = "") -> int:
        """Return a number higher than all that the sink's broker issued before, also across restarts.

        A run of a producer takes one ticket at its start, before it stages anything. Raises ``SinkReplaced`` if the
        sink has another ``incarnation``.
        """
        request = pb.TakeTicketRequest(sink=sink, incarnation=incarnation)
        response = await self._service.call("TakeTicket", sink, request)
        return int(response.ticket)

    @operation
    async def commit(self, commits: Sequence[EpochCommit], *, patience_s: float = PATIENCE_S) -> CommittedEpochs:
        """Make the staged pages of all given tokens visible atomically.

        The call is retried for up to ``patience_s`` while the broker is unavailable or has no room, so that the outcome
        is known when it returns. Epochs that are committed already are not an error. All sinks must be on one broker.

        Raises ``INVALID_EPOCH``, ``STAGED_INCOMPLETE``, ``EPOCH_FENCED``, ``EpochConflict``, ``EpochContentConflict``,
        ``PRODUCER_CHANGED``, and ``SinkReplaced`` if a sink was deleted and recreated since staging. After
        ``patience_s`` it raises the last failure; only a repeat of the same commit then tells whether it was applied.
        """
        check("patience_s", patience_s, 0, 86_400)
        sink = await self._one_broker(commits)
        request = pb.CommitEpochRequest(commits=[commit_message(one) for one in commits])
        response = await self._service.call(
            "CommitEpoch",
            sink,
            request,
            policy=RetryPolicy(tries_max=1_000_000, delay_max_s=1.0, budget_s=patience_s),
        )
        return CommittedEpochs(tuple(value(Epoch, one) for one in response.epochs), response.already_committed)

    @operation
    async def abort(self, sink: str, producer: str, epoch: int, tokens: Iterable[str], *, incarnation: str = "") -> int:
        """Discard the staged pages of tokens; return the number of tokens that had any.

        Committed epochs stay, no run is fenced, and the epoch can still be staged and committed.
        """
        request = pb.AbortEpochRequest(
            sink=sink, producer=producer, epoch=epoch, tokens=tokens, incarnation=incarnation
        )
        response = await self._service.call("AbortEpoch", sink, request)
        return int(response.aborted)

    @operation
    async def get(self, sink: str, producer: str, epoch: int | None = None, *, incarnation: str = "") -> Epoch:
        """Return a committed epoch, by default the producer's last one. Raises ``EPOCH_NOT_FOUND``."""
        request = pb.GetEpochRequest(sink=sink, producer=producer, epoch=epoch, incarnation=incarnation)
        response = await self._service.call("GetEpoch", sink, request)
        return value(Epoch, response.epoch)

    @stream
    async def list(self, sink: str) -> AsyncGenerator[Producer, None]:
        """Yield the producers that a sink remembers, by name, with their last epochs and staged pages."""
        request = pb.ListEpochsRequest(sink=sink, page_size=PRODUCERS_PER_CALL)
        async for page in self._service.pages("ListEpochs", sink, request):
            for one in page.producers:
                yield value(Producer, one)

    async def _one_broker(self, commits: Sequence[EpochCommit]) -> str:
        """Return one of the sinks; raises ``INVALID_EPOCH`` unless one broker holds all of them."""
        if not commits:
            raise InvalidArgument(
                "the list of commits is empty: pass at least one EpochCommit", reason=Reason.INVALID_EPOCH
            )
        fleet = self._channels.fleet
        if fleet is None:
            brokers = {self._channels.endpoint_of(one.sink): one.sink for one in commits}
            apart = ", ".join(f"{sink!r} on {endpoint}" for endpoint, sink in sorted(brokers.items()))
            problem = f"on different brokers ({apart}): commit those of each broker separately"
        else:
            for one in commits:
                await fleet.locate(one.sink)
            brokers = {fleet.shard_of(one.sink): one.sink for one in commits}
            apart = ", ".join(f"{sink!r} in {shard!r}" for shard, sink in sorted(brokers.items()))
            problem = (
                f"in different shards ({apart}): an epoch is committed within one shard. Create sinks that are written "
                "together in one shard, with `forebay sink create NAME --shard SHARD`, or commit those of each shard "
                "separately"
            )
        if len(brokers) > 1:
            raise InvalidArgument(
                f"the sinks of one commit are {problem}", reason=Reason.INVALID_EPOCH, facts={"field": "commits"}
            )
        return commits[0].sink


class Epochs(EpochCalls, Blocking):
    """Epochs of a client's sinks. Thread-safe. All methods raise ``SinkNotFound``."""


def stage_message(stage: Stage) -> buffer_service_pb2.PublishStage:
    """Return the wire form of a stage. Raises ``INVALID_EPOCH`` for numbers out of range."""
    try:
        return buffer_service_pb2.PublishStage(
            producer=stage.producer,
            write_name=stage.write_name,
            epoch=stage.epoch,
            token=stage.token,
            run=stage.run,
            ticket=stage.ticket,
            takeover=stage.takeover,
            application=stage.application,
        )
    except ValueError as failure:
        raise _out_of_range(stage) from failure


def _out_of_range(given: Stage | EpochCommit) -> InvalidArgument:
    text = f"epoch = {given.epoch}, ticket = {given.ticket}: must be integers from 0"
    return InvalidArgument(text, reason=Reason.INVALID_EPOCH)


def commit_message(commit: EpochCommit) -> pb.EpochCommit:
    """Return the wire form of a commit. Raises ``INVALID_EPOCH`` for numbers out of range."""
    try:
        return pb.EpochCommit(
            sink=commit.sink,
            producer=commit.producer,
            write_name=commit.write_name,
            epoch=commit.epoch,
            run=commit.run,
            ticket=commit.ticket,
            takeover=commit.takeover,
            content=None
            if (content := commit.content) is None
            else pb.EpochContent(records=content.records, digest=content.digest),
            check=pb.EpochCheck.Name(commit.check),
            incarnation=commit.incarnation,
            tokens=[_token_message(token.summarized) for token in commit.tokens],
        )
    except ValueError as failure:
        raise _out_of_range(commit) from failure


def _token_message(token: StagedToken) -> pb.StagedToken:
    summary = token.summary
    return pb.StagedToken(
        token=token.token,
        parts=[pb.StagedPart(partition=part.partition, pages=part.pages, records=part.records) for part in token.parts],
        summary=None
        if summary is None
        else pb.StagedSummary(pages=summary.pages, records=summary.records, digest=summary.digest),
    )
