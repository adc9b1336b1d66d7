"""The error tree: every reason has its class, and errors survive a trip between processes."""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path

import grpc
import pytest

import forebay.client
from forebay.client import errors
from forebay.client.errors import BY_CODE, BY_REASON, ForebayError, error_for

PROTOS = Path(__file__).parents[3] / "protos/forebay/v1"
EVERY = sorted(errors._walk(ForebayError), key=lambda kind: kind.__name__)


def promised_reasons() -> set[str]:
    """Return the reasons that the comments of the contract name behind a status."""
    statuses = "|".join(code.name for code in grpc.StatusCode)
    found: set[str] = set()
    for path in PROTOS.glob("*_service.proto"):
        comments = " ".join(re.findall(r"//(.*)", path.read_text(encoding="utf-8")))
        for group in re.findall(rf"`(?:{statuses})` / ((?:`[A-Z_]+`(?:, | or )?)+)", comments):
            found |= set(re.findall(r"`([A-Z_]+)`", group))
    return found


def test_every_reason_of_the_contract_has_a_class() -> None:
    promised = promised_reasons()

    assert {"SINK_NOT_FOUND", "SINK_FULL", "OFFSET_AHEAD", "WRITER_FENCED", "DRAINING"} <= promised
    assert promised - set(BY_REASON) == set()


def test_a_reason_belongs_to_one_class() -> None:
    reasons = [kind.default_reason for kind in EVERY if "default_reason" in vars(kind)]

    assert len(reasons) == len(set(reasons))


@pytest.mark.parametrize("reason", sorted(BY_REASON))
def test_an_error_is_found_by_its_reason_whatever_the_code(reason: str) -> None:
    error = error_for(2, reason, "text")

    assert type(error) is BY_REASON[reason]
    assert error.reason == reason


@pytest.mark.parametrize("code", sorted(BY_CODE))
def test_an_unknown_reason_gets_the_class_of_its_code_and_keeps_its_name(code: int) -> None:
    error = error_for(code, "FROM_A_NEWER_BROKER", "text")

    assert type(error) is BY_CODE[code]
    assert error.reason == "FROM_A_NEWER_BROKER"


def test_a_code_that_nobody_knows_is_a_fault_of_the_broker() -> None:
    assert type(error_for(99, "", "text")) is errors.BrokerFault


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_every_class_is_drawn_exported_and_says_what_to_do(kind: type[ForebayError]) -> None:
    assert kind.__name__ in (errors.__doc__ or "")
    assert kind.__name__ in forebay.client.__all__
    assert kind.__doc__
    assert kind.__doc__ != ForebayError.__doc__ or kind is ForebayError


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_errors_travel_between_processes(kind: type[ForebayError]) -> None:
    error = kind("text", facts={"requested": "7"}, retry_after_s=0.5)

    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is kind
        assert str(again) == "text"
        assert (again.reason, again.facts, again.retry_after_s) == (error.reason, {"requested": "7"}, 0.5)


def test_facts_are_attributes_where_a_caller_needs_them() -> None:
    error = error_for(11, "OFFSET_TRIMMED", "gone", facts={"requested": "3", "earliest": "10", "next": "20"})

    assert isinstance(error, errors.OffsetTrimmed)
    assert (error.requested, error.earliest, error.next_offset) == (3, 10, 20)


def test_a_fact_that_the_broker_did_not_give_is_minus_one() -> None:
    assert errors.OffsetAhead("ahead").next_offset == -1


PASSING = (errors.BrokerUnavailable, errors.BrokerFault, errors.DeadlineExceeded, errors.ResourceExhausted)
"""Kinds of errors after which a publisher or subscriber tries again."""
LASTING = (errors.ProtocolViolation, errors.TooManySinks, errors.TooManySubscriptions)
"""Those of them that do not pass by themselves."""


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_an_error_is_final_unless_it_is_of_a_kind_that_passes(kind: type[ForebayError]) -> None:
    assert kind.retryable is (issubclass(kind, PASSING) and not issubclass(kind, LASTING))
