"""Epochs between the wire and the core."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from forebay.broker.core.epochs.values import (
    SUMMARY_BYTES,
    Claim,
    Content,
    EpochCheck,
    EpochRecord,
    ProducerRecord,
    Staged,
    StagedSummary,
    TokenPart,
    Wanted,
)
from forebay.broker.core.errors import BrokerError
from forebay.broker.rpc.convert import timestamp
from forebay.broker.runtime.epochs.stage import Stage
from forebay.errors.reasons import Reason
from forebay.v1 import buffer_service_pb2, epoch_service_pb2


def claim(sink: str, message: buffer_service_pb2.PublishStage | epoch_service_pb2.EpochCommit) -> Claim:
    """Return the epoch and writer of a sink that a message names."""
    return Claim(
        sink, message.producer, message.write_name, message.epoch, message.run, message.ticket, message.takeover
    )


def wanted(message: epoch_service_pb2.EpochCommit) -> Wanted:
    """Return an epoch to commit."""
    tokens = ((each.token, _staged(each)) for each in message.tokens)
    content = Content(message.content.records, message.content.digest) if message.HasField("content") else None
    return Wanted(claim(message.sink, message), tuple(tokens), content, _check(message.check))


def _staged(message: epoch_service_pb2.StagedToken) -> Staged:
    if not message.HasField("summary"):
        return tuple(TokenPart(part.partition, part.pages, part.records) for part in message.parts)
    summary = message.summary
    if message.parts or len(summary.digest) != SUMMARY_BYTES:
        problem = f"a token has parts or a summary, and its digest {SUMMARY_BYTES} bytes"
        raise BrokerError(Reason.INVALID_EPOCH, problem, field="commits.tokens.summary")
    return StagedSummary(summary.pages, summary.records, summary.digest)


def _check(value: int) -> EpochCheck:
    try:
        return EpochCheck(value)
    except ValueError as unknown:
        raise BrokerError(Reason.INVALID_EPOCH, f"check {value} is not known", field="commits.check") from unknown


def epoch(sink: str, record: EpochRecord) -> epoch_service_pb2.Epoch:
    """Return a committed epoch for the wire."""
    message = epoch_service_pb2.Epoch(
        sink=sink,
        producer=record.producer,
        epoch=record.epoch,
        run=record.run,
        committed_at=timestamp(record.committed_at_us),
        tokens=record.tokens,
        digest=record.content_digest,
    )
    for part in record.parts:
        message.parts.add(partition=part.partition, first_offset=part.base, records=part.records, pages=part.pages)
    return message


def producer(
    record: ProducerRecord, stages: Sequence[Stage], *, application: str, wall_us: Callable[[float], int]
) -> epoch_service_pb2.Producer:
    """Return a producer with its stages for the wire.

    ``wall_us`` returns the wall clock time of a monotonic one.
    """
    message = epoch_service_pb2.Producer(
        producer=record.producer,
        write_name=record.write_name,
        run=record.run,
        ticket=record.ticket,
        staged_tokens=len(stages),
        staged_records=sum(stage.records for stage in stages),
        staged_bytes=sum(stage.size for stage in stages),
        application=application,
    )
    if stages:
        message.staged_at.CopyFrom(timestamp(wall_us(min(stage.opened for stage in stages))))
    if record.epoch is not None:
        message.last_epoch = record.epoch
        message.committed_at.CopyFrom(timestamp(record.committed_at_us))
    return message
