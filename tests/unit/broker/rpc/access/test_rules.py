"""Every rpc has a right, and the names of sinks are found where its request has them."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.message_factory import GetMessageClass

from forebay.broker.core.access.principal import Right
from forebay.broker.rpc.access.rules import FILTERED, RULES
from forebay.broker.rpc.pages import requests
from forebay.v1 import admin_service_pb2, buffer_service_pb2, epoch_service_pb2
from tests.support.rules.services import METHODS

SINKLESS = {
    "/forebay.v1.AdminService/GetBrokerInfo",
    "/forebay.v1.AdminService/HandOver",
    "/forebay.v1.AdminService/ListConnections",
    "/forebay.v1.AdminService/ListShards",
    "/forebay.v1.BackupService/CreateBackup",
    "/forebay.v1.BackupService/GetBackupStatus",
    "/forebay.v1.SinkService/ListSinks",
    "/forebay.v1.PositionService/ListPositions",
}


def test_every_rpc_of_the_services_has_a_rule() -> None:
    assert {name for name in RULES if name.startswith("/forebay.")} == set(METHODS)
    assert set(FILTERED) <= set(METHODS)


@pytest.mark.parametrize("name", sorted(set(METHODS) - SINKLESS))
def test_a_request_that_names_a_sink_needs_the_right_to_that_sink(name: str) -> None:
    request: Any = GetMessageClass(METHODS[name].input_type)()
    fields = request.DESCRIPTOR.fields_by_name
    if "open" in fields:
        request.open.sink = "orders"
    elif "commits" in fields:
        request.commits.add(sink="orders")
    elif "key" in fields:
        request.key.sink = "orders"
    else:
        setattr(request, "sink" if "sink" in fields else "name", "orders")

    assert list(RULES[name].sinks(request)) == ["orders"]


def test_the_list_of_connections_needs_the_right_to_every_sink() -> None:
    request = admin_service_pb2.ListConnectionsRequest()

    assert list(RULES["/forebay.v1.AdminService/ListConnections"].sinks(request)) == ["*"]


def test_a_ticket_for_no_sink_in_particular_needs_the_right_to_some_sink() -> None:
    request = epoch_service_pb2.TakeTicketRequest()

    assert list(RULES["/forebay.v1.EpochService/TakeTicket"].sinks(request)) == []


def test_a_switch_of_the_whole_broker_needs_the_right_to_every_sink() -> None:
    request = admin_service_pb2.SetRealtimeRequest()

    assert list(RULES["/forebay.v1.AdminService/SetRealtime"].sinks(request)) == ["*"]


@pytest.mark.parametrize("name", sorted(SINKLESS - {"/forebay.v1.AdminService/ListConnections"}))
def test_a_request_without_a_sink_names_none(name: str) -> None:
    assert list(RULES[name].sinks(GetMessageClass(METHODS[name].input_type)())) == []


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("Publish", requests.PageRequest(buffer_service_pb2.PublishPage(), b"")),
        ("Publish", buffer_service_pb2.PublishRequest(close=buffer_service_pb2.PublishClose())),
        ("Deliver", buffer_service_pb2.DeliverRequest(close=buffer_service_pb2.DeliverClose())),
    ],
)
def test_a_stream_that_does_not_begin_with_its_opening_names_no_sink(name: str, request_: Any) -> None:
    assert list(RULES[f"/forebay.v1.BufferService/{name}"].sinks(request_)) == []


def test_calls_that_change_or_destroy_sinks_are_audited_and_reads_are_not() -> None:
    audited = {name.rpartition("/")[2] for name, rule in RULES.items() if rule.audited}

    assert {"CreateSink", "DeleteSink", "PurgeSink", "SeekSubscription", "RedriveDeadLetters"} <= audited
    assert not audited & {"Publish", "Deliver", "Replay", "GetSink", "Ack"}


def test_viewing_reads_no_record() -> None:
    readers = {"Replay", "Peek", "ListDeadLetters", "Deliver", "Pull"}

    assert all(RULES[name].right is not Right.VIEW for name in RULES if name.rpartition("/")[2] in readers)
