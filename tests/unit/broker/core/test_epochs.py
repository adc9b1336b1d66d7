from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.broker.core.epochs import EPOCH_MAX, Claim, checked_token, digest
from holdfast.broker.core.errors import InvalidEpoch

CLAIM = Claim("orders", "query", "orders", 0, "run-1", 1)


def test_a_set_of_tokens_is_remembered_whatever_its_order() -> None:
    assert digest(["a", "b"]) == digest(["b", "a"])
    assert digest(["a", "b"]) != digest(["a\nb", "c"]) != digest([])


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"producer": ""}, "open.producer"),
        ({"producer": "x" * 129}, "open.producer"),
        ({"run": "a b"}, "open.run"),
        ({"write_name": "ü"}, "open.write_name"),
        ({"epoch": EPOCH_MAX + 1}, "open.epoch"),
    ],
)
def test_a_wrong_claim_is_refused_with_the_field_that_is_wrong(change: dict[str, str | int], field: str) -> None:
    with pytest.raises(InvalidEpoch) as refused:
        replace(CLAIM, **change).checked("open")  # type: ignore[arg-type]

    assert refused.value.facts["field"] == field


def test_a_claim_at_its_bounds_is_right() -> None:
    claim = replace(CLAIM, producer="x" * 128, write_name="", epoch=EPOCH_MAX)

    assert claim.checked("open") is claim


@pytest.mark.parametrize("token", ["", "x" * 65, "a/b"])
def test_a_wrong_token_is_refused(token: str) -> None:
    with pytest.raises(InvalidEpoch):
        checked_token(token, "token")
