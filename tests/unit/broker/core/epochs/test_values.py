from __future__ import annotations

from dataclasses import replace

import pytest

from forebay.broker.core.epochs.values import (
    EPOCH_MAX,
    RECORDS_MAX,
    Claim,
    Content,
    EpochCheck,
    StagedSummary,
    TokenPart,
    Wanted,
    checked_token,
    digest,
)
from forebay.errors.reasons import Reason
from tests.support.refusals import refusal

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
    with refusal(Reason.INVALID_EPOCH) as refused:
        replace(CLAIM, **change).checked("open")  # type: ignore[arg-type]

    assert refused.value.facts["field"] == field


def test_a_claim_at_its_bounds_is_right() -> None:
    claim = replace(CLAIM, producer="x" * 128, write_name="", epoch=EPOCH_MAX)

    assert claim.checked("open") is claim


@pytest.mark.parametrize("token", ["", "x" * 65, "a/b"])
def test_a_wrong_token_is_refused(token: str) -> None:
    with refusal(Reason.INVALID_EPOCH):
        checked_token(token, "token")


@pytest.mark.parametrize(
    ("other", "accepted_by"),
    [
        (Content(5, "kind:aa"), {EpochCheck.RECORDS, EpochCheck.CONTENT, EpochCheck.NONE}),
        (Content(5), {EpochCheck.RECORDS, EpochCheck.CONTENT, EpochCheck.NONE}),
        (Content(5, "newer:bb"), {EpochCheck.RECORDS, EpochCheck.CONTENT, EpochCheck.NONE}),
        (Content(5, "kind:bb"), {EpochCheck.RECORDS, EpochCheck.NONE}),
        (Content(6, "kind:aa"), {EpochCheck.NONE}),
    ],
    ids=["same", "no digest", "digest of another kind", "another digest", "another number"],
)
def test_contents_are_compared_as_far_as_the_check_says(other: Content, accepted_by: set[EpochCheck]) -> None:
    content = Content(5, "kind:aa")

    assert {check for check in EpochCheck if not content.differs(other, check)} == accepted_by
    assert {check for check in EpochCheck if not other.differs(content, check)} == accepted_by


@pytest.mark.parametrize(
    ("content", "field"),
    [
        (Content(RECORDS_MAX + 1), "commits.content.records"),
        (Content(1, "aa"), "commits.content.digest"),
        (Content(1, "kind:"), "commits.content.digest"),
        (Content(1, "kind:" + "a" * 65), "commits.content.digest"),
        (Content(1, "kind:a\n"), "commits.content.digest"),
    ],
)
def test_a_wrong_content_is_refused_with_the_field_that_is_wrong(content: Content, field: str) -> None:
    with refusal(Reason.INVALID_EPOCH) as refused:
        Wanted(CLAIM, (), content).checked()

    assert refused.value.facts["field"] == field


def test_a_summary_is_that_of_the_parts_with_pages_in_any_order() -> None:
    parts = [TokenPart(0, 2, 3), TokenPart(7, 1, 1), TokenPart(9, 0, 0)]

    assert StagedSummary.of(parts) == StagedSummary.of(parts[1::-1])
    assert (StagedSummary.of(parts).pages, StagedSummary.of(parts).records) == (3, 4)


@pytest.mark.parametrize(
    "others",
    [
        [TokenPart(0, 2, 3), TokenPart(6, 1, 1)],
        [TokenPart(0, 1, 3), TokenPart(7, 2, 1)],
        [TokenPart(0, 2, 1), TokenPart(7, 1, 3)],
        [TokenPart(0, 3, 4)],
    ],
    ids=["another partition", "pages elsewhere", "records elsewhere", "all in one partition"],
)
def test_other_parts_have_another_summary_though_their_sums_are_the_same(others: list[TokenPart]) -> None:
    summary, other = StagedSummary.of([TokenPart(0, 2, 3), TokenPart(7, 1, 1)]), StagedSummary.of(others)

    assert (summary.pages, summary.records) == (other.pages, other.records)
    assert summary.digest != other.digest
