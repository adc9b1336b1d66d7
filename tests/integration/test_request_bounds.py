"""Requests that are small on the wire and large in memory: every call refuses them before it decodes them.

The requests are made from the descriptors of all services, so a call that is added is covered too.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from forebay.broker.embedded import BrokerServer
from forebay.broker.rpc.requests.bounds import MESSAGE_BYTES_MAX, bounds_of
from forebay.broker.rpc.requests.shapes import Shape, shape_of
from tests.support.rules import services

MIB = 1 << 20
BOMB_BYTES = 4 * MIB
METHODS: list[MethodDescriptor] = [
    *services.METHODS.values(),
    *(
        method
        for file in (health_pb2, reflection_pb2)
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    ),
]


@dataclass(frozen=True, slots=True)
class Bomb:
    """A request of a call that repeats one of its fields."""

    method: MethodDescriptor
    path: str
    message: bytes


def varint(number: int) -> bytes:
    """A number, as the wire has it."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def bombs() -> Iterator[Bomb]:
    """One for every field of every request that could be repeated without end."""
    for method in METHODS:
        for path, message in repeated(shape_of(method.input_type)):
            yield Bomb(method, path, message)


def repeated(shape: Shape) -> Iterator[tuple[str, bytes]]:
    """Every counted field, empty and again and again, inside of those that it is in."""
    for number, place in shape.places.items():
        tag = varint(number << 3 | 2)
        yield place.path, (tag + b"\0") * (BOMB_BYTES // (len(tag) + 1))
        if place.inside is not None:
            for path, content in repeated(place.inside):
                yield path, tag + varint(len(content)) + content


BOMBS = list(bombs())


def name_of(method: MethodDescriptor) -> str:
    """The name of a call in a request's head."""
    return f"/{method.containing_service.full_name}/{method.name}"


def call(endpoint: str, method: MethodDescriptor, message: bytes) -> Any:
    """Make a call with bytes; its error, or None when there is none."""
    requests = "stream" if method.client_streaming else "unary"
    responses = "stream" if method.server_streaming else "unary"
    with grpc.insecure_channel(endpoint, options=[("grpc.max_send_message_length", 64 * MIB)]) as channel:
        caller = getattr(channel, f"{requests}_{responses}")(name_of(method), bytes, bytes)
        try:
            found = caller(iter([message]) if method.client_streaming else message, timeout=60)
            if method.server_streaming:
                next(iter(found), None)
                found.cancel()
        except grpc.RpcError as error:
            return error
    return None


def reason_of(error: Any) -> object:
    """The reason in the details of a status."""
    [details] = [value for key, value in error.trailing_metadata() or () if key == "grpc-status-details-bin"]
    info = error_details_pb2.ErrorInfo()
    assert isinstance(details, bytes)
    assert status_pb2.Status.FromString(details).details[0].Unpack(info)
    return info.reason


@pytest.mark.parametrize("bomb", BOMBS, ids=[f"{bomb.method.full_name}-{bomb.path}" for bomb in BOMBS])
def test_a_request_that_would_take_much_more_memory_than_bytes_is_refused(broker: BrokerServer, bomb: Bomb) -> None:
    begun = time.process_time()

    error = call(broker.endpoint, bomb.method, bomb.message)

    assert reason_of(error) == "REQUEST_TOO_LARGE"
    assert time.process_time() - begun < 4


@pytest.mark.parametrize("method", METHODS, ids=[method.full_name for method in METHODS])
def test_bytes_that_are_no_request_end_a_call_with_a_reason_and_no_traceback(
    broker: BrokerServer, method: MethodDescriptor, caplog: pytest.LogCaptureFixture
) -> None:
    error = call(broker.endpoint, method, b"\x0a\xff\xff\xff")

    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert reason_of(error) == "INVALID_REQUEST"
    assert not [record for record in caplog.records if record.exc_info]


SMALL = [method for method in METHODS if bounds_of(name_of(method)).bytes_max < MESSAGE_BYTES_MAX]


@pytest.mark.parametrize("method", SMALL, ids=[method.full_name for method in SMALL])
def test_a_request_is_bounded_in_bytes(broker: BrokerServer, method: MethodDescriptor) -> None:
    unknown_field = b"\xfa\x7f" + varint(20 * MIB) + bytes(20 * MIB)

    error = call(broker.endpoint, method, unknown_field)

    assert reason_of(error) == "REQUEST_TOO_LARGE"
