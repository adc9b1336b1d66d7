"""Every request that relies on something remembered of a sink can name the incarnation that it was learnt from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from google.protobuf.descriptor import Descriptor

from tests.support.rules.services import METHODS

BY_NAME_ALONE: Final = {
    "CreateSink": "makes the incarnation",
    "GetSink": "answers which incarnation it is",
    "GetSinkStats": "answers which incarnation it is",
    "WatchSinkStats": "answers which incarnation it is, and ends when the sink is deleted",
    "ListSubscriptions": "names nothing but the sink",
    "ListGaps": "its page tokens name the incarnation",
    "ListEpochs": "its page tokens name the incarnation",
    "ListSchemas": "its page tokens name the incarnation",
    "ListDeadLetters": "its page tokens name the incarnation",
    "ReadPosition": "answers a document that names the incarnation",
    "WritePosition": "stores a document that names the incarnation",
    "DeletePosition": "deletes what was stored of any incarnation",
}
"""Requests that name a sink and rely on nothing that was remembered of it, and why."""


def naming(message: Descriptor, seen: frozenset[str] = frozenset()) -> Iterator[Descriptor]:
    """The parts of a request that name a sink."""
    names = {"sink", "name"} if message.file.name.endswith("/sink_service.proto") else {"sink"}
    if names & set(message.fields_by_name) and message.full_name != "forebay.v1.Receipt":
        yield message
    for field in message.fields:
        inner = field.message_type
        if inner is not None and inner.file.package == "forebay.v1" and inner.full_name not in seen:
            yield from naming(inner, seen | {inner.full_name})


NAMING: Final = {method.name: list(naming(method.input_type)) for method in METHODS.values()}


@pytest.mark.parametrize("rpc", sorted(rpc for rpc, parts in NAMING.items() if parts and rpc not in BY_NAME_ALONE))
def test_a_request_that_names_a_sink_can_name_its_incarnation(rpc: str) -> None:
    assert [part.full_name for part in NAMING[rpc] if "incarnation" not in part.fields_by_name] == []


@pytest.mark.parametrize("rpc", sorted(BY_NAME_ALONE))
def test_a_request_without_an_incarnation_names_a_sink_and_nothing_that_is_remembered_of_it(rpc: str) -> None:
    [request] = NAMING[rpc]

    assert "incarnation" not in request.fields_by_name
    assert not {"offset", "partition_offsets", "epoch", "version", "token"} & set(request.fields_by_name)


def test_all_rpcs_but_the_listed_ones_name_a_sink() -> None:
    assert {rpc for rpc, parts in NAMING.items() if not parts} == {
        "CreateBackup",
        "GetBackupStatus",
        "GetBrokerInfo",
        "HandOver",
        "ListConnections",
        "ListShards",
        "ListPositions",
        "ListSinks",
    }
