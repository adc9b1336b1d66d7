"""Server reflection, in the versions v1 and v1alpha, that finds every symbol a client asks for.

The library's pool finds files by the names of messages, enums and services. ``grpcurl describe`` also asks for methods,
fields and enum values.
"""

from __future__ import annotations

from typing import Any, Final

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_reflection.v1alpha import reflection, reflection_pb2, reflection_pb2_grpc

from forebay.broker.rpc.transport.registration import GenericRegistration

V1: Final = "grpc.reflection.v1.ServerReflection"

_MEMBERS: Final = (
    ("FindServiceByName", "methods_by_name"),
    ("FindMessageTypeByName", "fields_by_name", "oneofs_by_name"),
    ("FindEnumTypeByName", "values_by_name"),
)
"""Look-ups of symbols that have members, each with the names of their tables."""


class SymbolPool:
    """Descriptors of the process, and the one of reflection v1, found by any symbol."""

    def __init__(self) -> None:
        self._pool: Any = descriptor_pool.Default()
        self._v1: Any = descriptor_pool.DescriptorPool()
        self._v1.Add(_v1_file())

    def FindFileByName(self, name: str) -> Any:
        """Return a file by its path. Raises KeyError."""
        return self._first(name, "FindFileByName")

    def FindFileContainingSymbol(self, name: str) -> Any:
        """Return the file that defines a symbol. Raises KeyError."""
        try:
            return self._first(name, "FindFileContainingSymbol")
        except KeyError:
            # A method, a field or a value of an enum: its file is that of the symbol around it.
            around, _, member = name.rpartition(".")
            if not around or not self._has(around, member):
                raise
            return self._first(around, "FindFileContainingSymbol")

    def FindMessageTypeByName(self, name: str) -> Any:
        """Return a message. Raises KeyError."""
        return self._first(name, "FindMessageTypeByName")

    def FindExtensionByNumber(self, message: Any, number: int) -> Any:
        """Return an extension. Raises KeyError."""
        return self._pool.FindExtensionByNumber(message, number)

    def FindAllExtensions(self, message: Any) -> Any:
        """Return the extensions of a message."""
        return self._pool.FindAllExtensions(message)

    def _first(self, name: str, method: str) -> Any:
        try:
            return getattr(self._pool, method)(name)
        except KeyError:
            return getattr(self._v1, method)(name)

    def _has(self, around: str, member: str) -> bool:
        for method, *members in _MEMBERS:
            try:
                found = self._first(around, method)
            except KeyError:
                continue
            return any(member in getattr(found, names) for names in members)
        return False


def _v1_file() -> FileDescriptorProto:
    """Return the file of version v1, whose messages are those of v1alpha under another package."""
    file = FileDescriptorProto()
    reflection_pb2.DESCRIPTOR.CopyToProto(file)
    file.name = "grpc/reflection/v1/reflection.proto"
    file.package = "grpc.reflection.v1"
    for message in file.message_type:
        for field in message.field:
            if field.type_name:
                field.type_name = field.type_name.replace("v1alpha", "v1")
    for service in file.service:
        for method in service.method:
            method.input_type = method.input_type.replace("v1alpha", "v1")
            method.output_type = method.output_type.replace("v1alpha", "v1")
    return file


def add_reflection(server: GenericRegistration) -> None:
    """Serve reflection of the services that are registered so far, and of itself."""
    names = [*server.services, reflection.SERVICE_NAME, V1]
    servicer = reflection.aio.ReflectionServicer(names, pool=SymbolPool())
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(servicer, server)
    handler = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(V1, {"ServerReflectionInfo": handler})])
