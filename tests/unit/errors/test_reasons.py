"""Each row of the table of reasons is complete."""

from __future__ import annotations

import re
from string import Formatter

import pytest

from forebay.errors.reasons import Reason, reason_of
from forebay.errors.status import Status

EVERY = list(Reason)


@pytest.mark.parametrize("reason", EVERY, ids=lambda reason: reason.name)
def test_a_reason_has_a_name_for_the_wire_and_advice_in_sentences(reason: Reason) -> None:
    assert re.fullmatch(r"[A-Z][A-Z0-9_]*[A-Z0-9]", reason.name)
    assert reason.advice.endswith(".")
    assert reason_of(reason.name) is reason


@pytest.mark.parametrize("reason", EVERY, ids=lambda reason: reason.name)
def test_a_text_has_at_most_one_gap_for_the_problem_and_its_facts_are_listed_once(reason: Reason) -> None:
    gaps = [name for _, name, _, _ in Formatter().parse(reason.text) if name is not None]

    assert gaps.count("") <= 1
    assert {name for name in gaps if name} <= set(reason.facts)
    assert len(reason.facts) == len(set(reason.facts))


def test_an_unknown_name_has_no_reason() -> None:
    assert reason_of("FROM_A_NEWER_BROKER") is None


@pytest.mark.parametrize("reason", EVERY, ids=lambda reason: reason.name)
def test_a_reason_is_retryable_if_and_only_if_it_has_a_delay(reason: Reason) -> None:
    assert reason.is_retryable is (reason.retry_after_s is not None)


def test_only_shortages_and_unavailability_of_the_broker_pass_by_themselves() -> None:
    passing = {reason.status for reason in EVERY if reason.is_retryable and reason.status is not None}

    assert passing == {Status.RESOURCE_EXHAUSTED, Status.UNAVAILABLE}


def test_facts_of_the_text_come_first() -> None:
    assert Reason.SINK_FULL.facts == ("sink", "limit", "bound", "used", "staged")
