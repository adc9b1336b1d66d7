"""Epochs between the wire and the core."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from holdfast.broker.core.epochs import TOKENS_MAX, Claim, EpochRecord, ProducerRecord, TokenPart, checked_token
from holdfast.broker.core.errors import InvalidEpoch
from holdfast.broker.rpc.convert import timestamp
from holdfast.broker.runtime.stage import Stage
from holdfast.broker.runtime.staging import Wanted
from holdfast.v1 import buffer_service_pb2, epoch_service_pb2

COMMITS_MAX: Final = 64


def claim(sink: str, message: buffer_service_pb2.PublishStage | epoch_service_pb2.EpochCommit) -> Claim:
    """Who writes which epoch of a sink."""
    return Claim(
        sink, message.producer, message.write_name, message.epoch, message.run, message.ticket, message.takeover
    )


def wanted(message: epoch_service_pb2.EpochCommit) -> Wanted:
    """One epoch that is to be committed, checked."""
    found = claim(message.sink, message).checked("commits")
    names = [checked_token(each.token, "commits.tokens.token") for each in message.tokens]
    if len(names) > TOKENS_MAX:
        raise InvalidEpoch(f"an epoch has up to {TOKENS_MAX} tokens, not {len(names)}", field="commits.tokens")
    if len(set(names)) != len(names):
        raise InvalidEpoch("a token is named twice", field="commits.tokens.token")
    parts = [
        tuple(TokenPart(part.partition, part.pages, part.records) for part in each.parts) for each in message.tokens
    ]
    return Wanted(found, tuple(zip(names, parts, strict=True)))


def check_apart(commits: Sequence[Wanted]) -> None:
    """Raise ``InvalidEpoch`` unless there is something to commit, and each producer of a sink is there once."""
    if not 1 <= len(commits) <= COMMITS_MAX:
        raise InvalidEpoch(f"a call commits 1 to {COMMITS_MAX} epochs, not {len(commits)}", field="commits")
    pairs = {(each.claim.sink, each.claim.producer) for each in commits}
    names = [(each.claim.sink, each.claim.write_name) for each in commits if each.claim.write_name]
    if len(pairs) != len(commits) or len(set(names)) != len(names):
        raise InvalidEpoch("a producer, or a write name, of a sink is named twice", field="commits")


def epoch(sink: str, record: EpochRecord) -> epoch_service_pb2.Epoch:
    """A committed epoch for the wire."""
    message = epoch_service_pb2.Epoch(
        sink=sink,
        producer=record.producer,
        epoch=record.epoch,
        run=record.run,
        committed_at=timestamp(record.committed_at_us),
        tokens=record.tokens,
    )
    for partition, found in groupby(record.parts, key=lambda part: part.partition):
        parts = list(found)
        message.parts.append(
            epoch_service_pb2.EpochPart(
                partition=partition,
                first_offset=parts[0].base,
                records=sum(part.records for part in parts),
                pages=sum(part.pages for part in parts),
            )
        )
    return message


def producer(record: ProducerRecord, stages: Sequence[Stage]) -> epoch_service_pb2.Producer:
    """A producer, and what it has staged, for the wire."""
    message = epoch_service_pb2.Producer(
        producer=record.producer,
        write_name=record.write_name,
        run=record.run,
        ticket=record.ticket,
        staged_tokens=len(stages),
        staged_records=sum(stage.records for stage in stages),
        staged_bytes=sum(stage.size for stage in stages),
    )
    if record.epoch is not None:
        message.last_epoch = record.epoch
        message.committed_at.CopyFrom(timestamp(record.committed_at_us))
    return message
