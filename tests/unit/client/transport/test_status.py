"""From a gRPC status to an error."""

from __future__ import annotations

from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import error_details_pb2

from forebay.client import BrokerFault, BrokerUnavailable, InvalidSetting, PermissionDenied, SinkFull, Unauthenticated
from forebay.client.transport.status import DETAILS_KEY, RETRY_AFTER_MAX_S, from_call, from_status
from tests.support.calls.wire_fake import status


class Ended(grpc.RpcError):
    """What grpc raises, as far as it is looked at."""

    def __init__(self, code: grpc.StatusCode, details: bytes | None = None) -> None:
        super().__init__()
        self._code = code
        self._details = details

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return "what grpc says"

    def trailing_metadata(self) -> Any:
        return () if self._details is None else (("other", "x"), (DETAILS_KEY, self._details))


def test_reason_facts_and_pause_come_from_the_details() -> None:
    error = from_status(status(grpc.StatusCode.RESOURCE_EXHAUSTED, "SINK_FULL", "full", 0.25, sink="orders"))

    assert type(error) is SinkFull
    assert str(error) == "full"
    assert error.facts == {"sink": "orders"}
    assert error.retry_after_s == 0.25


def test_a_bad_request_names_its_field() -> None:
    found = status(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_SETTING")
    detail = AnyMessage()
    violation = error_details_pb2.BadRequest.FieldViolation(field="partitions")
    detail.Pack(error_details_pb2.BadRequest(field_violations=[violation]))
    found.details.append(detail)

    error = from_status(found)

    assert type(error) is InvalidSetting
    assert error.facts["field"] == "partitions"


def test_the_details_of_a_call_win_over_its_code() -> None:
    details = status(grpc.StatusCode.RESOURCE_EXHAUSTED, "SINK_FULL").SerializeToString()

    assert type(from_call(Ended(grpc.StatusCode.UNKNOWN, details))) is SinkFull


def test_a_call_without_details_gets_the_class_of_its_code() -> None:
    error = from_call(Ended(grpc.StatusCode.UNAVAILABLE))

    assert type(error) is BrokerUnavailable
    assert str(error) == "what grpc says"
    assert type(from_call(Ended(grpc.StatusCode.UNAUTHENTICATED))) is Unauthenticated
    assert type(from_call(Ended(grpc.StatusCode.PERMISSION_DENIED))) is PermissionDenied


def test_details_that_are_none_are_ignored() -> None:
    assert type(from_call(Ended(grpc.StatusCode.UNAVAILABLE, b"\xff\xff\xff"))) is BrokerUnavailable


def test_an_rpc_error_that_is_no_call_is_a_fault() -> None:
    assert type(from_call(grpc.RpcError("strange"))) is BrokerFault


def test_an_absurd_wish_to_wait_is_cut_so_that_nobody_stands_still() -> None:
    error = from_status(status(grpc.StatusCode.UNAVAILABLE, "DRAINING", retry_after_s=1e9))

    assert error.retry_after_s == RETRY_AFTER_MAX_S
    assert from_status(status(grpc.StatusCode.UNAVAILABLE, "DRAINING", retry_after_s=-5)).retry_after_s == 0.0


def test_the_text_of_an_error_is_one_line_that_no_terminal_obeys() -> None:
    error = from_status(status(grpc.StatusCode.INTERNAL, "X", "a\n2026 INFO forged \x1b[2J\u202e"))

    assert str(error) == "a\\n2026 INFO forged \\x1b[2J\\u202e"
