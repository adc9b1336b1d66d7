"""Every error of the broker has a row in the table of reasons, and the protos say which reasons there are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import Final

import grpc
import pytest
from google.rpc import error_details_pb2

from forebay.broker.core.errors import BrokerError, InvalidSetting
from forebay.broker.rpc.status import DOMAIN, code_of, status_of
from forebay.errors.reasons import Reason
from forebay.errors.status import Status
from tests.support.rules.errors import Raised, raised

ROOT: Final = Path(__file__).resolve().parents[2]
PROTOS: Final = ROOT / "protos" / "forebay" / "v1"
RAISED: Final = list(raised(ROOT / "broker"))
REASONS: Final = [reason for reason in Reason if reason.status is not None]
"""Reasons of the broker."""


PINNED: Final = {
    "INVALID_ARGUMENT": {
        "INVALID_REQUEST",
        "NUMBER_OUT_OF_RANGE",
        "REQUEST_TOO_LARGE",
        "INVALID_SINK_NAME",
        "INVALID_SETTING",
        "INVALID_PAGE",
        "PAGE_CORRUPT",
        "RECORD_TOO_LARGE",
        "INVALID_PARTITION",
        "INVALID_RANGE",
        "INVALID_OPEN",
        "INVALID_CREDIT",
        "INVALID_NACK",
        "INVALID_PULL",
        "INVALID_INTERVAL",
        "INVALID_PAGE_TOKEN",
        "INVALID_SUBSCRIPTION_NAME",
        "INVALID_POSITION",
        "INVALID_FILTER",
        "INVALID_EPOCH",
        "INVALID_SCHEMA",
        "INVALID_LEASE",
    },
    "NOT_FOUND": {
        "SINK_NOT_FOUND",
        "SUBSCRIPTION_NOT_FOUND",
        "EPOCH_NOT_FOUND",
        "SCHEMA_NOT_FOUND",
    },
    "ALREADY_EXISTS": {
        "SINK_EXISTS",
        "SUBSCRIPTION_EXISTS",
        "ALREADY_COMMITTED",
    },
    "FAILED_PRECONDITION": {
        "SINK_NOT_EMPTY",
        "SINK_REPLACED",
        "SUBSCRIPTION_REPLACED",
        "DEFAULT_SUBSCRIPTION",
        "SUBSCRIPTION_IN_USE",
        "STAGED_INCOMPLETE",
        "STAGING_UNSUPPORTED",
        "ORDERING_STRICT",
    },
    "RESOURCE_EXHAUSTED": {
        "SINK_FULL",
        "DISK_FULL",
        "BROKER_FULL",
        "MEMORY_OVERLOADED",
        "TOO_MANY_WAITING",
        "TOO_MANY_SINKS",
        "TOO_MANY_SUBSCRIPTIONS",
        "TOO_MANY_STREAMS",
        "READER_TOO_SLOW",
        "REQUEST_TOO_SLOW",
        "RATE_LIMITED",
    },
    "OUT_OF_RANGE": {
        "OFFSET_TRIMMED",
        "OFFSET_AHEAD",
    },
    "UNAUTHENTICATED": {
        "TOKEN_REFUSED",
    },
    "PERMISSION_DENIED": {
        "PERMISSION_DENIED",
    },
    "ABORTED": {
        "WRITER_FENCED",
        "SEQUENCE_GAP",
        "SEQUENCE_CONFLICT",
        "CONSUMER_REPLACED",
        "EPOCH_FENCED",
        "EPOCH_CONFLICT",
        "EPOCH_CONTENT_CONFLICT",
        "PRODUCER_CHANGED",
        "EPOCH_AHEAD",
        "SCHEMA_CHANGED",
    },
    "UNAVAILABLE": {
        "DRAINING",
        "SESSION_TIMED_OUT",
        "STORE_FENCED",
        "READ_FAILED",
    },
}
"""Reasons by status that clients know. New ones need no line here."""

PINNED_DELAYS: Final = {
    "SINK_FULL": 0.25,
    "DISK_FULL": 1.0,
    "BROKER_FULL": 1.0,
    "MEMORY_OVERLOADED": 0.25,
    "TOO_MANY_WAITING": 0.05,
    "TOO_MANY_STREAMS": 1.0,
    "READER_TOO_SLOW": 5.0,
    "REQUEST_TOO_SLOW": 2.0,
    "RATE_LIMITED": 0.25,
    "DRAINING": 1.0,
    "SESSION_TIMED_OUT": 0.1,
    "STORE_FENCED": 2.0,
    "READ_FAILED": 1.0,
}
"""Seconds of the `RetryInfo` of the reasons that have one."""


def error_of(reason: Reason) -> BrokerError:
    """Return an error with every fact of its row."""
    return BrokerError(reason, "problem", **dict.fromkeys(reason.facts, "7"))


def test_the_broker_raises_each_reason_that_has_a_status_and_no_other() -> None:
    assert {found.reason for found in RAISED} == set(REASONS)


@pytest.mark.parametrize("found", RAISED, ids=lambda found: f"{found.reason.name}-{found.place}")
def test_an_error_is_raised_with_what_its_text_needs_and_with_facts_of_its_row(found: Raised) -> None:
    gaps = [name for _, name, _, _ in Formatter().parse(found.reason.text) if name is not None]

    assert found.has_problem is ("" in gaps)
    assert {name for name in gaps if name} <= found.facts <= set(found.reason.facts)


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: reason.name)
def test_each_fact_of_a_row_is_given_somewhere(reason: Reason) -> None:
    given = {fact for found in RAISED if found.reason is reason for fact in found.facts}

    assert given == set(reason.facts)


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: reason.name)
def test_a_status_names_code_reason_domain_and_facts(reason: Reason) -> None:
    error = error_of(reason)

    status = status_of(error)

    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert (info.reason, info.domain, dict(info.metadata)) == (reason.name, DOMAIN, error.facts)
    assert status.code == code_of(error).value[0] == reason.status
    assert status.message == str(error)


@pytest.mark.parametrize("status", Status)
def test_a_status_of_the_table_has_the_number_and_name_of_grpc(status: Status) -> None:
    assert grpc.StatusCode[status.name].value[0] == status


def test_exactly_the_retryable_reasons_have_retry_info_in_their_status() -> None:
    for reason in REASONS:
        details = status_of(error_of(reason)).details
        found = [each for each in details if each.Is(error_details_pb2.RetryInfo.DESCRIPTOR)]
        assert len(found) == reason.is_retryable


def test_the_wire_keeps_the_reasons_statuses_and_delays_that_it_has() -> None:
    by_status: dict[str, set[str]] = {}
    for reason in REASONS:
        assert reason.status is not None
        by_status.setdefault(reason.status.name, set()).add(reason.name)
    delays = {reason.name: reason.retry_after_s for reason in REASONS if reason.is_retryable}

    assert {status: names - by_status[status] for status, names in PINNED.items() if names - by_status[status]} == {}
    assert {name: delays[name] for name in PINNED_DELAYS} == PINNED_DELAYS


def test_a_wrong_field_is_named_in_a_bad_request() -> None:
    status = status_of(InvalidSetting("ack_deadline_us", 1, "100 ms to 24 h"))

    violation = error_details_pb2.BadRequest()
    assert status.details[1].Unpack(violation)
    assert [found.field for found in violation.field_violations] == ["ack_deadline_us"]


def test_every_reason_is_documented_in_the_protos() -> None:
    comments = "\n".join(
        line for path in sorted(PROTOS.glob("*.proto")) for line in path.read_text().splitlines() if "//" in line
    )
    documented = set(re.findall(r"`([A-Z][A-Z0-9_]+)`", comments))

    assert {reason.name for reason in REASONS} - documented == set()


def test_every_reason_that_the_protos_document_exists() -> None:
    services = [path.read_text() for path in sorted(PROTOS.glob("*_service.proto"))]
    listed = {reason for text in services for reason in _reasons(text)}

    assert listed - {reason.name for reason in REASONS} == set()


def _reasons(text: str) -> Iterator[str]:
    """Names that stand where a service's or an rpc's comment lists a status and its reasons."""
    codes = {code.name for code in grpc.StatusCode}
    for line in text.splitlines():
        comment = line.strip()
        if comment.startswith("//") and any(f"`{code}`" in comment for code in codes):
            yield from (found for found in re.findall(r"`([A-Z][A-Z0-9_]+)`", comment) if found not in codes)
