"""Source of the client's module with the settings of a sink, from ``sink.proto`` and its comments.

A field of the schema becomes a keyword and an attribute of the same name and type, and its comment the docstring. A
duration is a number of seconds, with ``_s`` after its name. An enumeration of the schema becomes a ``StrEnum``.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import Final

from google.protobuf.descriptor_pb2 import EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto

FIRST_LINE_MAX: Final = 100
LINE_MAX: Final = 116
DURATION: Final = ".google.protobuf.Duration"
TYPES: Final = {
    FieldDescriptorProto.TYPE_BOOL: "bool",
    FieldDescriptorProto.TYPE_DOUBLE: "float",
    FieldDescriptorProto.TYPE_MESSAGE: "float",
    FieldDescriptorProto.TYPE_UINT32: "int",
    FieldDescriptorProto.TYPE_UINT64: "int",
    FieldDescriptorProto.TYPE_SINT32: "int",
}
HEAD: Final = '''"""Settings of a sink as values. Generated from sink.proto by `make proto`: edit that file.

Durations are in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypedDict
'''
OPTIONS: Final = '''
class SinkOptions(TypedDict, total=False):
    """Settings as keywords of ``create`` and ``update``; see :class:`SinkSettings`."""
'''
SETTINGS: Final = '''

@dataclass(frozen=True, slots=True)
class SinkSettings:
    """All settings of a sink; the broker fills in its defaults, which may differ from those named here."""
'''


def source(schema: FileDescriptorProto) -> str:
    """Return the module for the schema ``sink.proto``, which has the comments."""
    comments = {tuple(found.path): found.leading_comments for found in schema.source_code_info.location}
    [(number, message)] = [(at, one) for at, one in enumerate(schema.message_type) if one.name == "SinkSettings"]
    seconds = {field.name: f"{field.name}_s" for field in message.field if field.type_name == DURATION}
    texts = {path: _in_python(comment, schema, seconds) for path, comment in comments.items()}
    lines = [HEAD]
    for at, enum in enumerate(schema.enum_type):
        lines.extend(_enumeration(enum, texts[5, at], [texts[5, at, 2, value] for value in range(len(enum.value))]))
    names = {field.name: (seconds.get(field.name, field.name), _type(field)) for field in message.field}
    lines.append(OPTIONS)
    for field in message.field:
        name, kind = names[field.name]
        lines.append(f"    {name}: {kind} | str" if field.type_name and kind != "float" else f"    {name}: {kind}")
    lines.append(SETTINGS)
    for at, field in enumerate(message.field):
        name, kind = names[field.name]
        lines += [f"    {name}: {kind}", *_docstring(texts[4, number, 2, at]), ""]
    return "\n".join(lines[:-1]) + "\n"


def _type(field: FieldDescriptorProto) -> str:
    if field.type == FieldDescriptorProto.TYPE_ENUM:
        return field.type_name.rpartition(".")[2]
    return TYPES[field.type]


def _enumeration(enum: EnumDescriptorProto, comment: str, comments: list[str]) -> Iterator[str]:
    """Yield the lines of an enumeration; the number 0 also represents the numbers of newer brokers."""
    prefix = _prefix(enum)
    yield f"\nclass {enum.name}(StrEnum):"
    yield from _docstring(comment)
    for value, said in zip(enum.value, comments, strict=True):
        name = value.name.removeprefix(prefix)
        yield f'\n    {name} = "{name}"'
        yield from _docstring(said if value.number else "Value of a newer broker that this client does not know.")
    yield ""


def _prefix(enum: EnumDescriptorProto) -> str:
    return enum.value[0].name.removesuffix("UNSPECIFIED")


def _in_python(comment: str, schema: FileDescriptorProto, seconds: dict[str, str]) -> str:
    """Return a comment with the names of Python and the code marks of docstrings."""
    text = " ".join(comment.split())
    prefixes = [_prefix(enum) for enum in schema.enum_type] + ["DROP_REASON_", "DURABILITY_"]
    text = re.sub(rf"`(?:{'|'.join(prefixes)})(?=[A-Z])", "`", text)
    return re.sub(r"`([^`]*)`", lambda code: f"``{seconds.get(code[1], code[1])}``", text)


def _docstring(text: str) -> list[str]:
    """Return the lines of a docstring: all in one, or the first sentence, then the others as a paragraph."""
    if len(text) <= FIRST_LINE_MAX:
        return [f'    """{text}"""']
    first, _, rest = re.sub(r"(?<=\.) ", "\n", text, count=1).partition("\n")
    if len(first) > FIRST_LINE_MAX:
        raise ValueError(f"the first sentence has more than {FIRST_LINE_MAX} characters: {first}")
    wrapped = textwrap.wrap(rest, LINE_MAX, break_on_hyphens=False, break_long_words=False)
    return [f'    """{first}', "", *(f"    {line}" for line in wrapped), '    """']
