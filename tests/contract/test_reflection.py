"""A client without our files can ask the broker what it speaks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from forebay.broker.embedded import BrokerServer
from tests.support.rules.services import FILES


@pytest.fixture(scope="module")
def ask() -> Iterator[Any]:
    with BrokerServer.in_memory() as server, grpc.insecure_channel(server.endpoint) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)

        def asked(**question: Any) -> Any:
            request = reflection_pb2.ServerReflectionRequest(**question)
            return next(iter(stub.ServerReflectionInfo(iter([request]), timeout=10)))

        yield asked


def test_it_lists_our_services_with_health_and_reflection(ask: Any) -> None:
    found = {service.name for service in ask(list_services="").list_services_response.service}

    assert found == {
        "grpc.health.v1.Health",
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


def test_it_says_what_it_does_not_know(ask: Any) -> None:
    answer = ask(file_containing_symbol="forebay.v1.NoSuchService")

    assert answer.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]
