"""Calls of every kind: whole ones, ones that are cut off, and streams with messages in odd orders."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import grpc
import grpc.aio
from google.protobuf import message_factory
from google.protobuf.descriptor import MethodDescriptor
from google.rpc import error_details_pb2, status_pb2

from forebay.v1 import buffer_service_pb2 as pb
from tests.fuzz import pages
from tests.fuzz.chance import UNSIGNED, Chance
from tests.fuzz.messages import message, wire

TIMEOUT_S: Final = 30.0
"""No call but those that wait on purpose takes as long as this on two busy cores."""
_PUBLISH: Final = "Publish"
_DELIVER: Final = "Deliver"
_WRITTEN_S: Final = 5.0
"""The library waits for ever to write to a call that was cancelled before it had begun."""
_READ_MAX: Final = 12
_ENDED: Final = (
    *(TimeoutError, asyncio.CancelledError, asyncio.InvalidStateError),
    *(grpc.aio.AioRpcError, grpc.aio.InternalError),
)
"""Errors of a stream that has ended, or is not read in time."""
_OVER: Final = "Internal error from Core"
"""Said by this side of a call, of a message that it could not write because the call had just ended."""


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """Outcome of a call."""

    method: str
    code: str
    reason: str
    """Of the refusal, empty without one."""
    details: str
    requests: Sequence[bytes]


class Caller:
    """Makes calls with one source of chance."""

    def __init__(self, channel: grpc.aio.Channel, methods: Sequence[MethodDescriptor], chance: Chance) -> None:
        self._channel = channel
        self._methods = methods
        self._chance = chance

    async def call(self) -> CallOutcome:
        """Make one call of any kind, and return what became of it."""
        method = self._chance.one(*self._methods)
        if method.client_streaming:
            return await self._stream(method)
        request = message(self._chance, method.input_type)
        self._tame(method, request)
        data = wire(self._chance, request)
        return await (self._answers(method, data) if method.server_streaming else self._answer(method, data))

    def _tame(self, method: MethodDescriptor, request: Any) -> None:
        """Leave something for the calls after this one: their sinks, and time."""
        if method.name == "Pull" and request.wait.seconds > 0:
            request.ClearField("wait")
        if method.name == "DeleteSink" and not self._chance.once_in(300):
            request.name = f"made-{self._chance.random.randrange(20)}"
        if not self._chance.once_in(10) and "incarnation" in method.input_type.fields_by_name:
            request.ClearField("incarnation")

    async def _answer(self, method: MethodDescriptor, data: bytes) -> CallOutcome:
        call: Any = self._channel.unary_unary(name_of(method), bytes, bytes)(data, timeout=TIMEOUT_S)
        if self._chance.once_in(30):
            asyncio.get_running_loop().call_later(self._chance.random.random() / 50, call.cancel)
        with suppress(grpc.aio.AioRpcError, asyncio.CancelledError):
            self._learn(method, await call)
        return await _outcome(method, call, [data])

    async def _answers(self, method: MethodDescriptor, data: bytes) -> CallOutcome:
        call: Any = self._channel.unary_stream(name_of(method), bytes, bytes)(data, timeout=TIMEOUT_S)
        await self._read(method, call, self._chance.one(0.05, 0.2), self._chance.one(1, 3, 20))
        call.cancel()
        return await _outcome(method, call, [data])

    async def _stream(self, method: MethodDescriptor) -> CallOutcome:
        chance = self._chance
        call: Any = self._channel.stream_stream(name_of(method), bytes, bytes)(timeout=TIMEOUT_S)
        sent = [wire(chance, each) for each in self._messages(method)]
        reading = asyncio.ensure_future(self._read(method, call, chance.one(0.02, 0.2, 0.5), _READ_MAX))
        try:
            for data in sent:
                async with asyncio.timeout(_WRITTEN_S):
                    await call.write(data)
                if chance.once_in(20):
                    await asyncio.sleep(chance.random.random() / 50)
            if chance.once_in(2):
                await call.done_writing()
            if not chance.once_in(4):
                await reading
        except (
            TimeoutError,
            grpc.aio.AioRpcError,
            grpc.aio.InternalError,
            asyncio.CancelledError,
            asyncio.InvalidStateError,
        ):
            pass
        call.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        return await _outcome(method, call, sent)

    def _messages(self, method: MethodDescriptor) -> list[Any]:
        chance = self._chance
        made = [] if chance.once_in(10) else [_open(chance, method)]
        sequence = chance.one(0, 1, 5, (1 << 64) - 3)
        for number in range(chance.one(0, 1, 2, 4, 8)):
            if method.name == _PUBLISH and not chance.once_in(8):
                known = chance.one(*UNSIGNED) if chance.once_in(6) else min(sequence + number, (1 << 64) - 1)
                made.append(pb.PublishRequest(page=pages.page(chance, known)))
            else:
                made.append(message(chance, method.input_type))
        return made

    async def _read(self, method: MethodDescriptor, call: Any, seconds: float, count: int) -> None:
        try:
            async with asyncio.timeout(seconds):
                for _ in range(count):
                    found = await call.read()
                    if found is grpc.aio.EOF:
                        return
                    self._learn(method, found)
        except (
            TimeoutError,
            grpc.aio.AioRpcError,
            grpc.aio.InternalError,
            asyncio.CancelledError,
            asyncio.InvalidStateError,
        ):
            pass

    def _learn(self, method: MethodDescriptor, answer: bytes) -> None:
        if self._chance.once_in(3):
            self._chance.known.learn(message_factory.GetMessageClass(method.output_type).FromString(answer))


def _open(chance: Chance, method: MethodDescriptor) -> Any:
    """A first message as streams have it, some of it drawn."""
    if method.name == _PUBLISH:
        opening = message(chance, pb.PublishOpen.DESCRIPTOR)
        if not chance.once_in(4):
            opening.ClearField("stage")
            opening.ClearField("incarnation")
        return pb.PublishRequest(open=pb.PublishOpen.FromString(opening.SerializeToString()))
    credit = pb.Credit(
        records=chance.one(0, 1, 10, 10_000_000, 10_000_001), bytes=chance.one(0, 1, 1 << 20, 1 << 30, (1 << 64) - 1)
    )
    return pb.DeliverRequest(
        open=pb.DeliverOpen(
            sink=chance.text("sink"),
            subscription=chance.text("subscription"),
            consumer_id=chance.text("consumer_id"),
            credit=credit,
        )
    )


def name_of(method: MethodDescriptor) -> str:
    """The name of a call in a request's head."""
    return f"/{method.containing_service.full_name}/{method.name}"


async def _outcome(method: MethodDescriptor, call: Any, requests: Sequence[bytes]) -> CallOutcome:
    code: grpc.StatusCode = await call.code()
    details = str(await call.details() or "")
    if details == _OVER:
        return CallOutcome(name_of(method), grpc.StatusCode.CANCELLED.name, "", details, requests)
    found = next(
        (value for key, value in await call.trailing_metadata() or () if key == "grpc-status-details-bin"), b""
    )
    return CallOutcome(name_of(method), code.name, _reason(found), details, requests)


def _reason(details: bytes) -> str:
    info = error_details_pb2.ErrorInfo()
    for detail in status_pb2.Status.FromString(details).details:
        if detail.Unpack(info):
            return info.reason if info.domain == "forebay.v1" else ""
    return ""
