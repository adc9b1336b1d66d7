"""Reference of the wire contract, from the descriptors and the comments of the protos."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from docs.generator.proto_comments import PROTOS, comments, paragraphs
from docs.generator.table import table


def services() -> str:
    """Return a section for each service and each of its calls."""
    parts: list[str] = []
    for proto, file in _files():
        said = comments(proto)
        for service in file.services_by_name.values():
            parts += [f"## {service.name}", paragraphs(said[service.name])]
            for method in service.methods:
                asked = f"{'stream ' if method.client_streaming else ''}{_link(method.input_type)}"
                answered = f"{'stream ' if method.server_streaming else ''}{_link(method.output_type)}"
                parts += [
                    f"### {method.name} {{ #{service.name.lower()}-{method.name.lower()} }}",
                    f"{asked} → {answered}",
                    paragraphs(said[f"{service.name}.{method.name}"]),
                ]
    return "\n\n".join(parts)


def messages() -> str:
    """Return a section for each message and each enum, in the order of the files."""
    parts: list[str] = []
    for proto, file in _files():
        said = comments(proto)
        parts += [f"## {proto}", paragraphs(said[""])]
        for kind in file.enum_types_by_name.values():
            parts.append(_enum(kind, said))
        for message in file.message_types_by_name.values():
            parts += _message(message, said)
    return "\n\n".join(parts)


def _files() -> list[tuple[str, Any]]:
    names = sorted(path.name for path in PROTOS.glob("*.proto"))
    return [(name, import_module(f"forebay.v1.{name.removesuffix('.proto')}_pb2").DESCRIPTOR) for name in names]


def _local(descriptor: Any) -> str:
    return str(descriptor.full_name).removeprefix("forebay.v1.")


def _link(descriptor: Any) -> str:
    if not descriptor.full_name.startswith("forebay.v1."):
        return f"`{descriptor.full_name}`"
    name = _local(descriptor)
    return f"[{name}](wire-messages.md#{_anchor(name)})"


def _anchor(name: str) -> str:
    return f"type-{name.lower().replace('.', '-')}"


def _heading(name: str) -> str:
    return f"### {name} {{ #{_anchor(name)} }}"


def _enum(kind: Any, said: dict[str, str]) -> str:
    name = _local(kind)
    rows = [(f"`{value.name}`", str(value.number), said[f"{name}.{value.name}"]) for value in kind.values]
    return f"{_heading(name)}\n\n{paragraphs(said[name])}\n\n{table(('value', 'number', 'description'), rows)}"


def _message(message: Any, said: dict[str, str]) -> list[str]:
    name = _local(message)
    if message.GetOptions().map_entry:
        return []
    rows = [
        (f"`{field.name}`", str(field.number), _type(field), said[f"{name}.{field.name}"]) for field in message.fields
    ]
    fields = table(("field", "number", "type", "description"), rows) if rows else "No fields."
    parts = [f"{_heading(name)}\n\n{paragraphs(said[name])}\n\n{fields}"]
    for kind in message.enum_types:
        parts.append(_enum(kind, said))
    for nested in message.nested_types:
        parts += _message(nested, said)
    return parts


def _type(field: Any) -> str:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        key, value = message.fields_by_name["key"], message.fields_by_name["value"]
        return f"map of {_type(key)} to {_type(value)}"
    kind = field.enum_type or message
    name = _link(kind) if kind is not None else f"`{_SCALARS[field.type]}`"
    choice = field.containing_oneof
    if choice is not None and len(choice.fields) > 1:
        return f"{name}, one of `{choice.name}`"
    return f"repeated {name}" if field.is_repeated else f"optional {name}" if choice is not None else name


_SCALARS = {
    1: "double",
    2: "float",
    3: "int64",
    4: "uint64",
    5: "int32",
    6: "fixed64",
    7: "fixed32",
    8: "bool",
    9: "string",
    12: "bytes",
    13: "uint32",
    15: "sfixed32",
    16: "sfixed64",
    17: "sint32",
    18: "sint64",
}
"""Names of the scalar types by their numbers in ``FieldDescriptorProto.Type``."""
