"""The wire contract stays compatible with the last release.

``tests/contract/baseline.binpb`` is the schema of the last release. ``make proto-baseline`` replaces it, and
that is allowed at two times only: in the commit that makes a release, so that what was added counts from then
on, and before the first release, when no process runs an older schema yet. Never to make this test pass.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorSet

from tests.support.rules.schema_changes import breaking_changes

ROOT: Final = Path(__file__).resolve().parents[2]
CURRENT: Final = ROOT / "protos" / "forebay" / "v1" / "descriptors.binpb"
BASELINE: Final = ROOT / "tests" / "contract" / "baseline.binpb"


def test_the_schema_is_compatible_with_the_last_release() -> None:
    older = FileDescriptorSet.FromString(BASELINE.read_bytes())
    newer = FileDescriptorSet.FromString(CURRENT.read_bytes())

    assert breaking_changes(older, newer) == []


def sample() -> FileDescriptorSet:
    """Return a schema with one of each kind."""
    files = FileDescriptorSet()
    file = files.file.add(name="forebay/v1/sample.proto", package="forebay.v1", syntax="proto3")
    message = file.message_type.add(name="Sink")
    message.field.add(name="name", number=1, type="TYPE_STRING", label="LABEL_OPTIONAL")
    message.field.add(name="limit", number=2, type="TYPE_UINT64", label="LABEL_OPTIONAL", oneof_index=0)
    message.oneof_decl.add(name="bound")
    message.reserved_range.add(start=7, end=9)
    message.reserved_name.append("colour")
    message.enum_type.add(name="Mode").value.add(name="MODE_UNSPECIFIED", number=0)
    message.nested_type.add(name="Part").field.add(name="a", number=1, type="TYPE_BOOL", label="LABEL_OPTIONAL")
    policy = file.enum_type.add(name="Policy")
    policy.value.add(name="POLICY_UNSPECIFIED", number=0)
    policy.value.add(name="POLICY_REJECT", number=1)
    service = file.service.add(name="Sinks")
    service.method.add(name="Watch", input_type=".forebay.v1.Sink", output_type=".forebay.v1.Sink")
    return files


def retype(files: FileDescriptorSet) -> None:
    files.file[0].message_type[0].field[0].type = FieldDescriptorProto.TYPE_BYTES


def repeat(files: FileDescriptorSet) -> None:
    files.file[0].message_type[0].field[0].label = FieldDescriptorProto.LABEL_REPEATED


def make_optional(files: FileDescriptorSet) -> None:
    files.file[0].message_type[0].field[0].proto3_optional = True


def rename_field(files: FileDescriptorSet) -> None:
    files.file[0].message_type[0].field[0].name = "title"


def renumber_field(files: FileDescriptorSet) -> None:
    files.file[0].message_type[0].field[0].number = 5


def take_out_of_oneof(files: FileDescriptorSet) -> None:
    files.file[0].message_type[0].field[1].ClearField("oneof_index")


def renumber_value(files: FileDescriptorSet) -> None:
    files.file[0].enum_type[0].value[1].number = 2


def move_package(files: FileDescriptorSet) -> None:
    files.file[0].package = "forebay.v2"


def change_request(files: FileDescriptorSet) -> None:
    files.file[0].service[0].method[0].input_type = ".forebay.v1.Sink.Part"


def stream_responses(files: FileDescriptorSet) -> None:
    files.file[0].service[0].method[0].server_streaming = True


def stream_requests(files: FileDescriptorSet) -> None:
    files.file[0].service[0].method[0].client_streaming = True


BREAKING: Final[dict[str, tuple[Callable[[FileDescriptorSet], object], str]]] = {
    "message removed": (
        lambda files: files.file[0].message_type.pop(),
        "message forebay.v1.Sink was removed",
    ),
    "nested message removed": (
        lambda files: files.file[0].message_type[0].nested_type.pop(),
        "Part was removed",
    ),
    "field removed": (lambda files: files.file[0].message_type[0].field.pop(), "field 2 of forebay.v1.Sink"),
    "field renumbered": (renumber_field, "was 'string name' and was removed"),
    "field renamed": (rename_field, "is now 'string title'"),
    "field retyped": (retype, "is now 'bytes name'"),
    "field repeated": (repeat, "is now 'repeated string name'"),
    "field made optional": (make_optional, "is now 'optional string name'"),
    "field taken out of its oneof": (take_out_of_oneof, "was 'uint64 limit in oneof bound'"),
    "number freed": (lambda files: files.file[0].message_type[0].reserved_range.pop(), "numbers from 7"),
    "name freed": (
        lambda files: files.file[0].message_type[0].reserved_name.pop(),
        "reserves the name colour",
    ),
    "enum removed": (lambda files: files.file[0].enum_type.pop(), "enum forebay.v1.Policy was removed"),
    "nested enum removed": (lambda files: files.file[0].message_type[0].enum_type.pop(), "Mode was removed"),
    "value removed": (lambda files: files.file[0].enum_type[0].value.pop(), "value POLICY_REJECT"),
    "value renumbered": (renumber_value, "was 1 and is now '2'"),
    "service removed": (lambda files: files.file[0].service.pop(), "service forebay.v1.Sinks was removed"),
    "rpc removed": (lambda files: files.file[0].service[0].method.pop(), "rpc forebay.v1.Sinks.Watch was"),
    "request changed": (change_request, "rpc forebay.v1.Sinks.Watch"),
    "responses streamed": (stream_responses, "returns (stream .forebay.v1.Sink)"),
    "requests streamed": (stream_requests, "is now '(stream .forebay.v1.Sink)"),
}


@pytest.mark.parametrize(("change", "report"), BREAKING.values(), ids=BREAKING.keys())
def test_a_breaking_change_is_found(change: Callable[[FileDescriptorSet], object], report: str) -> None:
    newer = sample()
    change(newer)

    [found] = breaking_changes(sample(), newer)

    assert report in found


def test_another_package_is_another_contract() -> None:
    newer = sample()
    move_package(newer)

    assert len(breaking_changes(sample(), newer)) == 3


def test_adding_breaks_nothing() -> None:
    newer = sample()
    newer.file[0].message_type.add(name="New")
    newer.file[0].message_type[0].field.add(name="b", number=3, type="TYPE_BOOL", label="LABEL_REPEATED")
    newer.file[0].message_type[0].reserved_range[0].end = 12
    newer.file[0].enum_type[0].value.add(name="POLICY_DROP", number=2)
    newer.file[0].service[0].method.add(name="Drop", input_type=".forebay.v1.Sink", output_type=".forebay.v1.Sink")
    newer.file.add(name="forebay/v1/other.proto", package="forebay.v1").service.add(name="Others")

    assert breaking_changes(sample(), newer) == []
