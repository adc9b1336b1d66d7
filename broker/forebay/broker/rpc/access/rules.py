"""Right that each rpc needs, as one table. A test checks that every rpc has a rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from forebay.broker.core.access.principal import EVERY_SINK, Right

Sinks = Callable[[Any], Sequence[str]]


def _sink(request: Any) -> Sequence[str]:
    return (request.sink,)


def _name(request: Any) -> Sequence[str]:
    return (request.name,)


def _commits(request: Any) -> Sequence[str]:
    return [commit.sink for commit in request.commits]


def _opened(request: Any) -> Sequence[str]:
    """Return the sink that the first message of a stream names; none for one that ends the stream."""
    # A page is no message of the descriptor: it is cut out before, and has no `open`.
    return (request.open.sink,) if hasattr(request, "open") and request.HasField("open") else ()


def _sink_if_named(request: Any) -> Sequence[str]:
    return (request.sink,) if request.sink else ()


def _sink_of_key(request: Any) -> Sequence[str]:
    return (request.key.sink,)


def _sink_or_every(request: Any) -> Sequence[str]:
    return (request.sink or EVERY_SINK,)


def _every_sink(request: Any) -> Sequence[str]:
    return (EVERY_SINK,)


def _no_sink(request: Any) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Rule:
    """Right that a call needs, and the sinks that it applies to."""

    right: Right
    sinks: Sinks
    """Names in the request. A call that names none needs the right to some sink."""

    @property
    def audited(self) -> bool:
        """Return whether an admitted call is written to the audit log."""
        return self.right in {Right.MANAGE, Right.ADMIN}


_BUFFER: Final = "/forebay.v1.BufferService/"
_SINK: Final = "/forebay.v1.SinkService/"
_EPOCH: Final = "/forebay.v1.EpochService/"
_DEAD_LETTER: Final = "/forebay.v1.DeadLetterService/"
_RESEND: Final = "/forebay.v1.ResendService/"
_SCHEMA: Final = "/forebay.v1.SchemaService/"
_BACKUP: Final = "/forebay.v1.BackupService/"
_ADMIN: Final = "/forebay.v1.AdminService/"
_POSITION: Final = "/forebay.v1.PositionService/"

RULES: Final[dict[str, Rule]] = {
    f"{_BUFFER}Publish": Rule(Right.PUBLISH, _opened),
    f"{_BUFFER}PublishBatch": Rule(Right.PUBLISH, _sink),
    f"{_BUFFER}Deliver": Rule(Right.CONSUME, _opened),
    f"{_BUFFER}Pull": Rule(Right.CONSUME, _sink),
    f"{_BUFFER}Ack": Rule(Right.CONSUME, _sink),
    f"{_BUFFER}Nack": Rule(Right.CONSUME, _sink),
    f"{_BUFFER}ExtendDeadline": Rule(Right.CONSUME, _sink),
    f"{_BUFFER}Replay": Rule(Right.REPLAY, _sink),
    f"{_BUFFER}Peek": Rule(Right.REPLAY, _sink),
    f"{_SINK}CreateSink": Rule(Right.MANAGE, _name),
    f"{_SINK}GetSink": Rule(Right.VIEW, _name),
    f"{_SINK}ListSinks": Rule(Right.VIEW, _no_sink),
    f"{_SINK}UpdateSink": Rule(Right.MANAGE, _name),
    f"{_SINK}DeleteSink": Rule(Right.MANAGE, _name),
    f"{_SINK}PauseSink": Rule(Right.MANAGE, _name),
    f"{_SINK}ResumeSink": Rule(Right.MANAGE, _name),
    f"{_SINK}PurgeSink": Rule(Right.MANAGE, _name),
    f"{_SINK}ListGaps": Rule(Right.VIEW, _sink),
    f"{_SINK}ExplainRecord": Rule(Right.VIEW, _sink),
    f"{_SINK}GetSinkStats": Rule(Right.VIEW, _name),
    f"{_SINK}WatchSinkStats": Rule(Right.VIEW, _name),
    f"{_SINK}CreateSubscription": Rule(Right.CONSUME, _sink),
    f"{_SINK}ListSubscriptions": Rule(Right.VIEW, _sink),
    f"{_SINK}DeleteSubscription": Rule(Right.MANAGE, _sink),
    f"{_SINK}SeekSubscription": Rule(Right.MANAGE, _sink),
    f"{_SINK}SettleSubscription": Rule(Right.CONSUME, _sink),
    f"{_EPOCH}TakeTicket": Rule(Right.PUBLISH, _sink_if_named),
    f"{_EPOCH}CommitEpoch": Rule(Right.PUBLISH, _commits),
    f"{_EPOCH}AbortEpoch": Rule(Right.PUBLISH, _sink),
    f"{_EPOCH}GetEpoch": Rule(Right.VIEW, _sink),
    f"{_EPOCH}ListEpochs": Rule(Right.VIEW, _sink),
    f"{_DEAD_LETTER}ListDeadLetters": Rule(Right.REPLAY, _sink),
    f"{_DEAD_LETTER}RedriveDeadLetters": Rule(Right.MANAGE, _sink),
    f"{_DEAD_LETTER}PurgeDeadLetters": Rule(Right.MANAGE, _sink),
    f"{_RESEND}LeaseResends": Rule(Right.CONSUME, _sink),
    f"{_RESEND}SettleResends": Rule(Right.CONSUME, _sink),
    f"{_RESEND}ReleaseResends": Rule(Right.CONSUME, _sink),
    f"{_SCHEMA}RegisterSchema": Rule(Right.PUBLISH, _sink),
    f"{_SCHEMA}GetSchema": Rule(Right.VIEW, _sink),
    f"{_SCHEMA}ListSchemas": Rule(Right.VIEW, _sink),
    f"{_POSITION}ReadPosition": Rule(Right.REPLAY, _sink_of_key),
    f"{_POSITION}WritePosition": Rule(Right.REPLAY, _sink_of_key),
    f"{_POSITION}DeletePosition": Rule(Right.REPLAY, _sink_of_key),
    f"{_POSITION}ListPositions": Rule(Right.VIEW, _no_sink),
    f"{_BACKUP}CreateBackup": Rule(Right.ADMIN, _no_sink),
    f"{_BACKUP}GetBackupStatus": Rule(Right.VIEW, _no_sink),
    f"{_ADMIN}GetBrokerInfo": Rule(Right.VIEW, _no_sink),
    f"{_ADMIN}SetRealtime": Rule(Right.MANAGE, _sink_or_every),
    f"{_ADMIN}ListConnections": Rule(Right.VIEW, _every_sink),
    f"{_ADMIN}HandOver": Rule(Right.ADMIN, _no_sink),
    f"{_ADMIN}ListShards": Rule(Right.VIEW, _no_sink),
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": Rule(Right.VIEW, _no_sink),
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": Rule(Right.VIEW, _no_sink),
}

FILTERED: Final[dict[str, tuple[str, Callable[[Any], str]]]] = {
    f"{_SINK}ListSinks": ("sinks", lambda sink: str(sink.name)),
    f"{_POSITION}ListPositions": ("positions", lambda position: str(position.key.sink)),
}
"""Lists without the sinks that the caller may not view: their field, and the sink of an element."""
