"""A client without our files can ask the broker what it speaks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_reflection.v1alpha import reflection_pb2

from forebay.broker.embedded import BrokerServer
from tests.support.rules.services import FILES


@pytest.fixture(scope="module", params=["v1", "v1alpha"])
def ask(request: pytest.FixtureRequest) -> Iterator[Any]:
    with BrokerServer.in_memory() as server, grpc.insecure_channel(server.endpoint) as channel:
        call = channel.stream_stream(
            f"/grpc.reflection.{request.param}.ServerReflection/ServerReflectionInfo",
            request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
        )

        def asked(**question: Any) -> Any:
            question_message = reflection_pb2.ServerReflectionRequest(**question)
            return next(iter(call(iter([question_message]), timeout=10)))

        yield asked


def test_it_lists_our_services_with_health_and_reflection(ask: Any) -> None:
    found = {service.name for service in ask(list_services="").list_services_response.service}

    assert found == {
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
        "forebay.v1.AdminService",
        "forebay.v1.BackupService",
        "forebay.v1.BufferService",
        "forebay.v1.DeadLetterService",
        "forebay.v1.EpochService",
        "forebay.v1.ResendService",
        "forebay.v1.PositionService",
        "forebay.v1.SchemaService",
        "forebay.v1.SinkService",
    }


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.__name__)
def test_it_describes_every_service_as_the_schema_has_it(ask: Any, file: Any) -> None:
    for service in file.DESCRIPTOR.services_by_name.values():
        answer = ask(file_containing_symbol=service.full_name).file_descriptor_response

        described = [FileDescriptorProto.FromString(each) for each in answer.file_descriptor_proto]
        methods = {m.name for f in described for s in f.service if s.name == service.name for m in s.method}
        assert methods == {method.name for method in service.methods}


def test_it_describes_every_message(ask: Any) -> None:
    for file in FILES:
        for message in file.DESCRIPTOR.message_types_by_name.values():
            assert ask(file_containing_symbol=message.full_name).HasField("file_descriptor_response")


@pytest.mark.parametrize(
    "symbol",
    [
        "forebay.v1.SinkService.CreateSink",
        "forebay.v1.Sink.name",
        "forebay.v1.PublishRequest.request",
        "forebay.v1.BufferMode.BUFFER_MODE_DISK",
        "forebay.v1.BUFFER_MODE_DISK",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1.ServerReflection.ServerReflectionInfo",
        "grpc.reflection.v1alpha.ServerReflectionRequest",
    ],
)
def test_it_finds_the_file_of_every_kind_of_symbol(ask: Any, symbol: str) -> None:
    answer = ask(file_containing_symbol=symbol)

    files = [FileDescriptorProto.FromString(one) for one in answer.file_descriptor_response.file_descriptor_proto]
    assert any(symbol.startswith(f"{file.package}.") for file in files)


def test_it_finds_a_file_by_its_path(ask: Any) -> None:
    for path in ("forebay/v1/sink_service.proto", "grpc/reflection/v1/reflection.proto"):
        assert ask(file_by_filename=path).HasField("file_descriptor_response")


@pytest.mark.parametrize(
    "symbol",
    [
        "forebay.v1.NoSuchService",
        "forebay.v1.SinkService.NoSuchMethod",
        "forebay.v1.Sink.no_such_field",
        "Sink",
        "",
        ".",
    ],
)
def test_it_says_what_it_does_not_know(ask: Any, symbol: str) -> None:
    answer = ask(file_containing_symbol=symbol)

    assert answer.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]
