"""Everything in the protos is explained: each service, rpc, message, field, oneof, enum and value has a comment.

The generated code carries no comments, so the schema's text is read line by line; that nothing was overlooked
is checked against the descriptors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from forebay.v1 import (
    admin_service_pb2,
    backup_service_pb2,
    buffer_service_pb2,
    dead_letter_service_pb2,
    epoch_service_pb2,
    position_service_pb2,
    record_pb2,
    resend_service_pb2,
    schema_service_pb2,
    sink_pb2,
    sink_service_pb2,
    subscription_pb2,
)

PROTOS: Final = Path(__file__).resolve().parents[2] / "protos" / "forebay" / "v1"
FILES: Final = {
    "admin_service.proto": admin_service_pb2.DESCRIPTOR,
    "backup_service.proto": backup_service_pb2.DESCRIPTOR,
    "buffer_service.proto": buffer_service_pb2.DESCRIPTOR,
    "dead_letter_service.proto": dead_letter_service_pb2.DESCRIPTOR,
    "epoch_service.proto": epoch_service_pb2.DESCRIPTOR,
    "record.proto": record_pb2.DESCRIPTOR,
    "resend_service.proto": resend_service_pb2.DESCRIPTOR,
    "position_service.proto": position_service_pb2.DESCRIPTOR,
    "schema_service.proto": schema_service_pb2.DESCRIPTOR,
    "sink.proto": sink_pb2.DESCRIPTOR,
    "sink_service.proto": sink_service_pb2.DESCRIPTOR,
    "subscription.proto": subscription_pb2.DESCRIPTOR,
}
BLOCK: Final = re.compile(r"(?:service|message|enum|oneof) (\w+) \{")
RPC: Final = re.compile(r"rpc (\w+)\(")
FIELD: Final = re.compile(r"(?:(?:optional|repeated) )?(?:map<\w+, ?[\w.]+>|[\w.]+) (\w+) = \d+")
VALUE: Final = re.compile(r"([A-Z][A-Z0-9_]*) = \d+")


def elements(text: str) -> Iterator[tuple[str, str]]:
    """Each element's name with the comment above it."""
    comment: list[str] = []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("//"):
            comment.append(stripped.removeprefix("//").strip())
            continue
        for kind in (BLOCK, RPC, VALUE, FIELD):
            found = kind.match(stripped)
            if found:
                yield found.group(1), " ".join(comment).strip()
                break
        comment = []


def names(file: Any) -> Iterator[str]:
    """Names of everything that a file declares."""
    for service in file.services_by_name.values():
        yield service.name
        yield from (method.name for method in service.methods)
    for enum in file.enum_types_by_name.values():
        yield enum.name
        yield from (value.name for value in enum.values)
    for message in file.message_types_by_name.values():
        yield message.name
        yield from (field.name for field in message.fields)
        yield from (oneof.name for oneof in message.oneofs if not oneof.name.startswith("_"))


def test_every_proto_is_checked() -> None:
    assert set(FILES) == {path.name for path in PROTOS.glob("*.proto")}


@pytest.mark.parametrize("name", sorted(FILES))
def test_no_element_is_overlooked(name: str) -> None:
    found = [element for element, _ in elements((PROTOS / name).read_text())]

    assert sorted(found) == sorted(names(FILES[name]))


@pytest.mark.parametrize("name", sorted(FILES))
def test_every_element_has_a_comment_that_is_a_sentence(name: str) -> None:
    bare = [element for element, comment in elements((PROTOS / name).read_text()) if not comment.endswith((".", "`"))]

    assert bare == []


@pytest.mark.parametrize("name", sorted(FILES))
def test_every_file_begins_with_what_it_is_for(name: str) -> None:
    assert (PROTOS / name).read_text().startswith("// ")


@pytest.mark.parametrize("name", [name for name in sorted(FILES) if name.endswith("_service.proto")])
def test_every_rpc_that_names_a_sink_says_that_there_may_be_none(name: str) -> None:
    text = (PROTOS / name).read_text()
    comments = dict(elements(text))
    for service in FILES[name].services_by_name.values():
        said_for_all = "SINK_NOT_FOUND" in comments[service.name]
        for method in service.methods:
            named = {field.name for field in method.input_type.fields} & {"name", "sink"}
            made = method.name == "CreateSink"
            assert not named or said_for_all or made or "SINK_NOT_FOUND" in comments[method.name], method.name
