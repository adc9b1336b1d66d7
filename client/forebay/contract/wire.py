"""Calls of a broker by their names, each with a time limit and without a retry."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, Final, Self, TypeVar

import grpc
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.message import Message

from forebay.client import ClientSettings
from forebay.client.settings import MESSAGE_BYTES_MAX
from forebay.client.transport.security import open_channel
from forebay.contract.refusal import ACCESS, of_call
from forebay.contract.violation import Violation
from forebay.errors.reasons import Reason
from forebay.v1 import (  # noqa: F401 - their descriptors are found by name
    admin_service_pb2,
    buffer_service_pb2,
    dead_letter_service_pb2,
    epoch_service_pb2,
    position_service_pb2,
    resend_service_pb2,
    schema_service_pb2,
    sink_service_pb2,
)

CALL_S: Final = 10.0
"""Time limit of a call."""

V = TypeVar("V")


class OutOfTime(Exception):
    """The time for a check is used up."""


class Wire:
    """Calls of one broker."""

    def __init__(self, endpoint: str, settings: ClientSettings, *, clock: Callable[[], float]) -> None:
        options = [
            ("grpc.max_send_message_length", -1),
            ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        self._channel = open_channel(endpoint, settings, options)
        self.clock = clock
        self.ends_at = clock()
        """Time of the clock after which no call begins, and at which every call ends."""

    def limit_s(self) -> float:
        """Return the time limit of a call that begins now. Raises `OutOfTime`."""
        left_s = self.ends_at - self.clock()
        if left_s <= 0:
            raise OutOfTime
        return min(CALL_S, left_s)

    def ask(self, rpc: str, **request: Any) -> Any:
        """Return the response to a unary call, named ``Service.Method``. Raises ``grpc.RpcError``."""
        method = _method(rpc)
        return self.raw(rpc, _class(method.input_type)(**request).SerializeToString())

    def raw(self, rpc: str, request: bytes) -> Any:
        """Return the response to a unary call with a request of these bytes; of a stream, the first response."""
        method = _method(rpc)
        read: Any = _class(method.output_type).FromString
        if method.server_streaming:
            call: Any = self._channel.unary_stream(_path(rpc), bytes, read)(request, timeout=self.limit_s())
            try:
                return next(call, None)
            finally:
                call.cancel()
        return self._channel.unary_unary(_path(rpc), bytes, read)(request, timeout=self.limit_s())

    def refused(self, rpc: str, reason: Reason, **request: Any) -> dict[str, str]:
        """Return the metadata of a rejected unary call. Raises `Violation` unless it is for ``reason``."""
        return self.refused_raw(rpc, reason, _class(_method(rpc).input_type)(**request).SerializeToString())

    def refused_raw(self, rpc: str, reason: Reason, request: bytes) -> dict[str, str]:
        """Return the metadata of the rejection of a request of these bytes, as `refused`."""
        with refused_for(reason, rpc) as facts:
            self.raw(rpc, request)
        return facts

    def stream(self, rpc: str, *messages: Message) -> Stream:
        """Open a stream in both directions and send messages."""
        read: Any = _class(_method(rpc).output_type).FromString
        return Stream(rpc, self._channel.stream_stream(_path(rpc), _serialised, read), self.limit_s(), messages)

    def responses(self, rpc: str, **request: Any) -> Generator[Any, None, None]:
        """Yield the responses of a stream from the broker."""
        method = _method(rpc)
        read: Any = _class(method.output_type).FromString
        call: Any = self._channel.unary_stream(_path(rpc), _serialised, read)(
            _class(method.input_type)(**request), timeout=self.limit_s()
        )
        try:
            yield from call
        finally:
            call.cancel()

    def foreign(self, path: str, request: Message, answer: type[Message]) -> Any:
        """Return the first response of a call of another package, whose requests are a stream."""
        read: Any = answer.FromString
        call: Any = self._channel.stream_stream(path, _serialised, read)(iter([request]), timeout=self.limit_s())
        try:
            return next(call)
        except StopIteration:
            raise Violation(f"{path} gave no answer") from None
        finally:
            call.cancel()

    def foreign_unary(self, path: str, request: Message, answer: type[Message]) -> Any:
        """Return the response of a unary call of another package."""
        read: Any = answer.FromString
        return self._channel.unary_unary(path, _serialised, read)(request, timeout=self.limit_s())

    def close(self) -> None:
        """End all calls."""
        self._channel.close()


class Stream:
    """A stream in both directions; a context manager that cancels it."""

    def __init__(self, rpc: str, method: Any, limit_s: float, messages: tuple[Message, ...]) -> None:
        self._rpc = rpc
        self._requests: SimpleQueue[Message | None] = SimpleQueue()
        for message in messages:
            self._requests.put(message)
        self._call = method(iter(self._requests.get, None), timeout=limit_s)

    def send(self, message: Message) -> None:
        """Send a message."""
        self._requests.put(message)

    def receive(self) -> Any:
        """Return the next message of the broker. Raises `Violation` at the end of the stream."""
        try:
            return next(self._call)
        except StopIteration:
            raise Violation(f"{self._rpc}: the broker ended the stream before its answer") from None

    def finish(self) -> list[Any]:
        """Half-close the stream; return what the broker sends until its end."""
        self._requests.put(None)
        return list(self._call)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._requests.put(None)
        self._call.cancel()


@contextmanager
def refused_for(reason: Reason, of_what: str) -> Iterator[dict[str, str]]:
    """Expect that the block is rejected for ``reason``; the metadata is there after the block.

    Raises `Violation` otherwise. A caller without the right gets the error of the call.
    """
    facts: dict[str, str] = {}
    try:
        yield facts
    except grpc.RpcError as error:
        failed: Any = error
        if failed.code() in ACCESS and reason.name != of_call(failed).reason:
            raise
        found = of_call(failed)
        found.check(reason, of_what)
        facts.update(found.facts)
        return
    raise Violation(f"{of_what}: accepted; must be rejected with {reason.name}")


def _method(rpc: str) -> Any:
    return descriptor_pool.Default().FindMethodByName(f"forebay.v1.{rpc}")


def _path(rpc: str) -> str:
    return f"/forebay.v1.{rpc.replace('.', '/')}"


def _class(descriptor: Any) -> type[Message]:
    return message_factory.GetMessageClass(descriptor)


def _serialised(message: Message) -> bytes:
    return message.SerializeToString()
