"""Messages of gRPC health and reflection for the checks; no package of the base install has them."""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

_STRING: Final = FieldDescriptorProto.TYPE_STRING
_BYTES: Final = FieldDescriptorProto.TYPE_BYTES
_INT32: Final = FieldDescriptorProto.TYPE_INT32
_MESSAGE: Final = FieldDescriptorProto.TYPE_MESSAGE
_PACKAGE: Final = "forebay.contract.foreign"
_LAYOUT: Final[dict[str, tuple[tuple[str, int, int, str], ...]]] = {
    "HealthRequest": (("service", 1, _STRING, ""),),
    "HealthResponse": (("status", 1, _INT32, ""),),
    "ReflectionRequest": (
        ("file_by_filename", 3, _STRING, ""),
        ("file_containing_symbol", 4, _STRING, ""),
        ("list_services", 7, _STRING, ""),
    ),
    "Files": (("file_descriptor_proto", 1, _BYTES, "*"),),
    "Service": (("name", 1, _STRING, ""),),
    "Services": (("service", 1, _MESSAGE, "*Service"),),
    "Problem": (("error_code", 1, _INT32, ""), ("error_message", 2, _STRING, "")),
    "ReflectionResponse": (
        ("file_descriptor_response", 4, _MESSAGE, "Files"),
        ("list_services_response", 6, _MESSAGE, "Services"),
        ("error_response", 7, _MESSAGE, "Problem"),
    ),
}
"""Fields by message, as gRPC has them: name, number, type, and `*` (repeated) with a message type."""


def _file() -> FileDescriptorProto:
    file = FileDescriptorProto(name="forebay/contract/foreign.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _LAYOUT.items():
        message = DescriptorProto(name=name)
        for field, number, kind, more in fields:
            message.field.add(
                name=field,
                number=number,
                type=kind,
                label=(
                    FieldDescriptorProto.LABEL_REPEATED if more.startswith("*") else FieldDescriptorProto.LABEL_OPTIONAL
                ),
                type_name=f".{_PACKAGE}.{more.lstrip('*')}" if kind == _MESSAGE else None,
                # A member of a oneof is sent although it is empty, which `list_services` is.
                oneof_index=0 if name == "ReflectionRequest" else None,
            )
        if name == "ReflectionRequest":
            message.oneof_decl.add(name="message_request")
        file.message_type.append(message)
    return file


_POOL: Final = descriptor_pool.DescriptorPool()
_POOL.Add(_file())


def _class(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


HealthRequest: Final = _class("HealthRequest")
HealthResponse: Final = _class("HealthResponse")
ReflectionRequest: Final = _class("ReflectionRequest")
ReflectionResponse: Final = _class("ReflectionResponse")
