"""Incompatible changes between two versions of the wire contract.

Compatible means: a client of the older schema and a broker of the newer one understand each other, in
protobuf's binary form and in its JSON form, which names fields and values. So nothing that was ever released
may go away, change its name, its number or its type; adding is free. A field that is no longer used stays and
says so.

Only files below ``forebay/`` are compared; what they import has guardians of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorSet,
)


@dataclass(frozen=True, slots=True)
class Schema:
    """A file set taken apart: every element by its full name."""

    messages: dict[str, DescriptorProto] = field(default_factory=dict)
    fields: dict[tuple[str, int], str] = field(default_factory=dict)
    """Return comparable descriptions of the fields, by message and number."""

    enums: dict[str, EnumDescriptorProto] = field(default_factory=dict)
    values: dict[tuple[str, str], int] = field(default_factory=dict)
    """Numbers of enum values, by enum and name."""

    services: set[str] = field(default_factory=set)
    rpcs: dict[str, str] = field(default_factory=dict)
    """Signatures, by service and name."""


def schema_of(files: FileDescriptorSet) -> Schema:
    """Take ``files`` apart."""
    schema = Schema()
    for file in files.file:
        if not file.name.startswith("forebay/"):
            continue
        add_enums(schema, file.package, file.enum_type)
        for message in file.message_type:
            add_message(schema, file.package, message)
        for service in file.service:
            schema.services.add(f"{file.package}.{service.name}")
            for rpc in service.method:
                takes = f"{'stream ' if rpc.client_streaming else ''}{rpc.input_type}"
                returns = f"{'stream ' if rpc.server_streaming else ''}{rpc.output_type}"
                schema.rpcs[f"{file.package}.{service.name}.{rpc.name}"] = f"({takes}) returns ({returns})"
    return schema


def add_message(schema: Schema, scope: str, message: DescriptorProto) -> None:
    """Add ``message`` and everything nested in it."""
    name = f"{scope}.{message.name}"
    schema.messages[name] = message
    for item in message.field:
        schema.fields[name, item.number] = described(item, message)
    add_enums(schema, name, message.enum_type)
    for nested in message.nested_type:
        add_message(schema, name, nested)


def add_enums(schema: Schema, scope: str, enums: Iterable[EnumDescriptorProto]) -> None:
    """Add ``enums`` and their values."""
    for enum in enums:
        schema.enums[f"{scope}.{enum.name}"] = enum
        for value in enum.value:
            schema.values[f"{scope}.{enum.name}", value.name] = value.number


def described(item: FieldDescriptorProto, message: DescriptorProto) -> str:
    """Return everything of a field that a peer relies on, as a sentence to compare and to show."""
    repeated = item.label == FieldDescriptorProto.LABEL_REPEATED
    kind = item.type_name or FieldDescriptorProto.Type.Name(item.type).removeprefix("TYPE_").lower()
    words = ["repeated" if repeated else "", "optional" if item.proto3_optional else "", kind, item.name]
    if item.HasField("oneof_index") and not item.proto3_optional:
        words.append(f"in oneof {message.oneof_decl[item.oneof_index].name}")
    return " ".join(word for word in words if word)


def breaking_changes(older: FileDescriptorSet, newer: FileDescriptorSet) -> list[str]:
    """Return one line per element of ``older`` that ``newer`` lacks or means differently."""
    return sorted(changes(schema_of(older), schema_of(newer)))


def changes(older: Schema, newer: Schema) -> Iterator[str]:
    """Yield the lines of ``breaking_changes``, once per cause: what went with its message is not reported."""
    gone = older.messages.keys() - newer.messages.keys()
    yield from (f"message {name} was removed" for name in gone if parent(name) not in gone)
    enums_gone = older.enums.keys() - newer.enums.keys()
    yield from (f"enum {name} was removed" for name in enums_gone if parent(name) not in gone)
    yield from (f"service {name} was removed" for name in older.services - newer.services)
    for (message, number), was in older.fields.items():
        now = newer.fields.get((message, number))
        if message in newer.messages and now != was:
            yield f"field {number} of {message} was '{was}' and {became(now)}"
    for (enum, value), number in older.values.items():
        now_number = newer.values.get((enum, value))
        if enum in newer.enums and now_number != number:
            yield f"value {value} of {enum} was {number} and {became(now_number)}"
    for rpc, was in older.rpcs.items():
        if parent(rpc) in newer.services and newer.rpcs.get(rpc) != was:
            yield f"rpc {rpc} was '{was}' and {became(newer.rpcs.get(rpc))}"
    for name, old_message in older.messages.items():
        if name in newer.messages:
            yield from freed(name, old_message, newer.messages[name])
    for name, old_enum in older.enums.items():
        if name in newer.enums:
            yield from freed(name, old_enum, newer.enums[name])


def parent(name: str) -> str:
    """Return the full name of what ``name`` is nested in."""
    return name.rpartition(".")[0]


def became(now: str | int | None) -> str:
    """Return the end of a sentence about a change."""
    return "was removed" if now is None else f"is now '{now}'"


def freed(
    name: str, older: DescriptorProto | EnumDescriptorProto, newer: DescriptorProto | EnumDescriptorProto
) -> Iterator[str]:
    """Yield what ``older`` reserved and ``newer`` no longer protects from reuse."""
    for span in older.reserved_range:
        if not any(now.start <= span.start and span.end <= now.end for now in newer.reserved_range):
            yield f"{name} no longer reserves the numbers from {span.start}"
    for word in set(older.reserved_name) - set(newer.reserved_name):
        yield f"{name} no longer reserves the name {word}"
