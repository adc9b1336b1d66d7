from __future__ import annotations

import pytest

from forebay.broker.core.names import is_id, sink_name
from forebay.errors.reasons import Reason
from tests.support.refusals import refusal


@pytest.mark.parametrize("name", ["a", "0", "orders", "a.b-c_d", "x" * 123, "dlq", "orders.dlq.old"])
def test_a_good_name_is_taken(name: str) -> None:
    assert sink_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "A", "-a", ".a", "_a", "a b", "a/b", "ä", "x" * 124, "orders.dlq", "a\n", "a" * 10_000]
)
def test_a_bad_name_is_refused_and_never_repeated_at_length(name: str) -> None:
    with refusal(Reason.INVALID_SINK_NAME) as refused:
        sink_name(name)

    assert refused.value.facts["field"] == "name"
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("text", ["a", "A-z_9.", "x" * 64])
def test_a_good_id_is_one(text: str) -> None:
    assert is_id(text)


@pytest.mark.parametrize("text", ["", "x" * 65, "a b", "a\n", "é"])
def test_a_bad_id_is_none(text: str) -> None:
    assert not is_id(text)
