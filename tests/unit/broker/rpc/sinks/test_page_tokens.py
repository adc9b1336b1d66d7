from __future__ import annotations

import pytest

from forebay.broker.core.settings import SinkSettings
from forebay.broker.core.writes import SinkRecord
from forebay.broker.rpc.sinks.page_tokens import page_token, place_of
from forebay.errors.reasons import Reason
from tests.support.refusals import refusal

SINK = SinkRecord(1, "orders", "0123456789abcdef", SinkSettings(), 0)
ANEW = SinkRecord(2, "orders", "fedcba9876543210", SinkSettings(), 0)


@pytest.mark.parametrize("place", ["7", "0:5:default", "3-4-5", "query:a/b", ""])
def test_a_token_returns_the_place_that_it_was_made_of(place: str) -> None:
    assert place_of(SINK, page_token(SINK, place)) == place


def test_no_place_is_the_empty_token() -> None:
    assert page_token(SINK, "") == ""


@pytest.mark.parametrize("token", ["7", "/", "0123456789abcdef/", "größe/1", "0-0-1"])
def test_a_token_that_was_never_given_is_refused(token: str) -> None:
    with refusal(Reason.INVALID_PAGE_TOKEN):
        place_of(SINK, token)


def test_a_token_of_a_former_sink_is_refused_and_names_both() -> None:
    with refusal(Reason.SINK_REPLACED) as refused:
        place_of(ANEW, page_token(SINK, "7"))

    assert refused.value.facts == {"sink": "orders", "named": SINK.incarnation, "current": ANEW.incarnation}
