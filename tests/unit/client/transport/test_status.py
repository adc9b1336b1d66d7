"""From a gRPC status to an error."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import error_details_pb2

from forebay.client import BrokerFault, BrokerUnavailable, SinkFull
from forebay.client.errors import AccessDenied, InvalidArgument
from forebay.client.transport.status import (
    DETAILS_KEY,
    RETRY_AFTER_MAX_S,
    class_of,
    classes,
    error_for,
    from_call,
    from_status,
)
from forebay.errors.reasons import Reason
from forebay.errors.status import Status
from tests.support.calls.wire_fake import status


class Ended(grpc.RpcError):
    """Fake of the exceptions of grpc."""

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

    assert type(error) is InvalidArgument
    assert error.reason == "INVALID_SETTING"
    assert error.facts["field"] == "partitions"


def test_the_details_of_a_call_win_over_its_code() -> None:
    details = status(grpc.StatusCode.RESOURCE_EXHAUSTED, "SINK_FULL").SerializeToString()

    assert type(from_call(Ended(grpc.StatusCode.UNKNOWN, details))) is SinkFull


def test_a_call_without_details_gets_the_class_of_its_code() -> None:
    error = from_call(Ended(grpc.StatusCode.UNAVAILABLE))

    assert type(error) is BrokerUnavailable
    assert str(error) == "what grpc says"
    assert type(from_call(Ended(grpc.StatusCode.UNAUTHENTICATED))) is AccessDenied
    assert from_call(Ended(grpc.StatusCode.UNAUTHENTICATED)).reason == "TOKEN_REFUSED"
    assert from_call(Ended(grpc.StatusCode.PERMISSION_DENIED)).reason == "PERMISSION_DENIED"


def test_details_that_are_none_are_ignored() -> None:
    assert type(from_call(Ended(grpc.StatusCode.UNAVAILABLE, b"\xff\xff\xff"))) is BrokerUnavailable


def test_an_rpc_error_that_is_no_call_is_a_fault() -> None:
    assert type(from_call(grpc.RpcError("strange"))) is BrokerFault


def test_an_absurd_wait_is_cut_so_that_no_caller_is_blocked() -> None:
    error = from_status(status(grpc.StatusCode.UNAVAILABLE, "DRAINING", retry_after_s=1e9))

    assert error.retry_after_s == RETRY_AFTER_MAX_S
    assert from_status(status(grpc.StatusCode.UNAVAILABLE, "DRAINING", retry_after_s=-5)).retry_after_s == 0.0


def test_the_text_of_an_error_is_one_line_that_no_terminal_obeys() -> None:
    error = from_status(status(grpc.StatusCode.INTERNAL, "X", "a\n2026 INFO forged \x1b[2J\u202e"))

    assert str(error) == "a\\n2026 INFO forged \\x1b[2J\\u202e"


@pytest.mark.parametrize("reason", list(Reason), ids=lambda reason: reason.name)
def test_an_error_is_found_by_its_reason_whatever_the_code(reason: Reason) -> None:
    error = error_for(2, reason.name, "text")

    assert type(error) is class_of(reason)
    assert error.reason == reason.name


@pytest.mark.parametrize("reason", list(Reason), ids=lambda reason: reason.name)
def test_the_class_of_a_reason_has_its_status_or_names_the_reason(reason: Reason) -> None:
    kind = class_of(reason)

    assert reason in kind.reasons or reason.status in kind.statuses
    assert reason.status in kind.statuses or reason.status is None


def test_a_reason_belongs_to_one_class() -> None:
    named = [reason for kind in classes() if "reasons" in vars(kind) for reason in kind.reasons]

    assert len(named) == len(set(named))


@pytest.mark.parametrize("code", sorted(Status))
def test_an_unknown_reason_gets_the_class_of_its_code_and_keeps_its_name(code: Status) -> None:
    error = error_for(code, "FROM_A_NEWER_BROKER", "text")

    assert code in vars(type(error))["statuses"]
    assert error.reason == "FROM_A_NEWER_BROKER"


def test_an_unknown_code_is_a_fault_of_the_broker() -> None:
    assert type(error_for(99, "", "text")) is BrokerFault
