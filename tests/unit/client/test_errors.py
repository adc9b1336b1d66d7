"""The error tree: every reason has a class, and errors survive a trip between processes."""

from __future__ import annotations

import copy
import pickle

import pytest

import forebay.client
from forebay.client import errors
from forebay.client.errors import ForebayError
from forebay.client.transport.status import classes, error_for
from forebay.errors.reasons import Reason

EVERY = sorted((kind for kind in classes() if not kind.__name__.startswith("_")), key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_every_class_is_drawn_exported_and_says_what_to_do(kind: type[ForebayError]) -> None:
    assert kind.__name__ in (errors.__doc__ or "")
    assert kind.__name__ in errors.__all__
    assert getattr(forebay.client, kind.__name__) is kind
    assert kind.__doc__
    assert kind.__doc__ != ForebayError.__doc__ or kind is ForebayError


def test_all_errors_are_exported_with_the_rest_of_the_client() -> None:
    assert set(errors.__all__) <= set(forebay.client.__all__)
    assert len(set(forebay.client.__all__)) == len(forebay.client.__all__)


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_errors_travel_between_processes(kind: type[ForebayError]) -> None:
    error = kind("text", facts={"requested": "7"}, retry_after_s=0.5)

    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is kind
        assert str(again) == "text"
        assert vars(again) == vars(error)


def test_facts_are_attributes_where_a_caller_needs_them() -> None:
    error = error_for(11, "OFFSET_TRIMMED", "gone", facts={"requested": "3", "earliest": "10", "next": "20"})

    assert isinstance(error, errors.OffsetTrimmed)
    assert (error.requested, error.earliest, error.next_offset) == (3, 10, 20)


def test_a_fact_that_the_broker_did_not_give_is_minus_one() -> None:
    assert errors.OutOfRange("ahead").next_offset == -1


@pytest.mark.parametrize("reason", list(Reason), ids=lambda reason: reason.name)
def test_the_row_of_a_reason_says_whether_a_retry_helps_and_what_to_do(reason: Reason) -> None:
    error = ForebayError("text", reason=reason)

    assert (error.reason, error.retryable, error.advice) == (reason.name, reason.is_retryable, reason.advice)


PASSING = (errors.BrokerUnavailable, errors.BrokerFault, errors.DeadlineExceeded, errors.ResourceExhausted)
"""Kinds of errors after which a publisher or subscriber tries again."""


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_an_unknown_reason_is_final_unless_it_is_of_a_kind_that_passes(kind: type[ForebayError]) -> None:
    error = kind("text", reason="FROM_A_NEWER_BROKER")

    assert error.retryable is (issubclass(kind, PASSING) and kind is not errors.ProtocolViolation)
    assert error.advice == ""
