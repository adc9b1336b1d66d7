from __future__ import annotations

import pytest

from forebay.broker.core.epochs import values
from forebay.broker.core.epochs.values import (
    EPOCH_MAX,
    Claim,
    Content,
    EpochCheck,
    EpochPart,
    EpochRecord,
    ProducerRecord,
    StagedSummary,
    StageRecord,
    TokenPart,
    Wanted,
)
from forebay.broker.rpc import convert
from forebay.broker.rpc.epochs import convert as epochs
from forebay.broker.runtime.epochs.stage import Stage
from forebay.errors.reasons import Reason
from forebay.v1 import buffer_service_pb2 as buffer_pb
from forebay.v1 import epoch_service_pb2 as pb
from tests.support.refusals import refusal

CLAIM = Claim("orders", "query", "name", 7, "run-1", 3, takeover=True)


def commit(
    *tokens: pb.StagedToken, sink: str = "orders", producer: str = "query", name: str = "name"
) -> pb.EpochCommit:
    return pb.EpochCommit(
        sink=sink, producer=producer, write_name=name, epoch=7, run="run-1", ticket=3, takeover=True, tokens=tokens
    )


def token(name: str, *parts: tuple[int, int, int]) -> pb.StagedToken:
    named = [pb.StagedPart(partition=partition, pages=pages, records=records) for partition, pages, records in parts]
    return pb.StagedToken(token=name, parts=named)


def test_a_stage_and_a_commit_say_the_same_about_who_writes() -> None:
    stage = buffer_pb.PublishStage(
        producer="query", write_name="name", epoch=7, token="a", run="run-1", ticket=3, takeover=True
    )

    assert epochs.claim("orders", stage) == epochs.claim("orders", commit()) == CLAIM


def test_a_commit_keeps_the_order_of_its_tokens() -> None:
    found = epochs.wanted(commit(token("b", (1, 2, 3), (0, 1, 1)), token("a")))

    assert found == Wanted(CLAIM, (("b", (TokenPart(1, 2, 3), TokenPart(0, 1, 1))), ("a", ())))
    assert found.names == ["b", "a"]
    assert (found.content, found.check) == (None, EpochCheck.RECORDS)


def test_a_commit_says_what_the_epoch_contains_and_how_a_repeat_is_compared() -> None:
    message = commit()
    message.content.CopyFrom(pb.EpochContent(records=0, digest="kind:aa"))
    message.check = pb.EPOCH_CHECK_CONTENT

    assert epochs.wanted(message) == Wanted(CLAIM, (), Content(0, "kind:aa"), EpochCheck.CONTENT)


def test_a_token_may_be_named_by_a_summary_instead_of_its_parts() -> None:
    summary = StagedSummary.of([TokenPart(0, 1, 2)])
    message = pb.StagedSummary(pages=1, records=2, digest=summary.digest)

    assert epochs.wanted(commit(pb.StagedToken(token="a", summary=message))).tokens == (("a", summary),)


@pytest.mark.parametrize(
    "wrong",
    [
        pb.StagedToken(token="a", parts=[pb.StagedPart(pages=1)], summary=pb.StagedSummary(digest=b"x" * 16)),
        pb.StagedToken(token="a", summary=pb.StagedSummary(digest=b"x" * 15)),
    ],
    ids=["parts and a summary", "a short digest"],
)
def test_a_wrong_summary_is_refused(wrong: pb.StagedToken) -> None:
    with refusal(Reason.INVALID_EPOCH) as refused:
        epochs.wanted(commit(wrong))
    assert refused.value.facts["field"] == "commits.tokens.summary"


def test_a_check_that_is_not_known_is_refused() -> None:
    message = commit()
    message.check = 99  # type: ignore[assignment]

    with refusal(Reason.INVALID_EPOCH, match="99") as refused:
        epochs.wanted(message)
    assert refused.value.facts["field"] == "commits.check"


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (commit(producer=""), "commits.producer"),
        (commit(name="a b"), "commits.write_name"),
        (pb.EpochCommit(sink="orders", producer="q", run="", epoch=1), "commits.run"),
        (pb.EpochCommit(sink="orders", producer="q", run="r", epoch=EPOCH_MAX + 1), "commits.epoch"),
        (commit(token("")), "commits.tokens.token"),
        (commit(token("a"), token("a")), "commits.tokens.token"),
    ],
)
def test_a_wrong_commit_is_refused_with_its_field(wrong: pb.EpochCommit, field: str) -> None:
    with refusal(Reason.INVALID_EPOCH) as refused:
        epochs.wanted(wrong).checked()

    assert refused.value.facts["field"] == field


def test_no_more_tokens_are_named_than_a_sink_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "TOKENS_MAX", 2)
    epochs.wanted(commit(token("a"), token("b"))).checked()

    with refusal(Reason.INVALID_EPOCH, match="3 tokens: must be up to 2"):
        epochs.wanted(commit(token("a"), token("b"), token("c"))).checked()


def test_a_call_commits_each_producer_and_each_name_of_a_sink_once() -> None:
    one = epochs.wanted(commit())
    values.check_apart([one, epochs.wanted(commit(sink="others"))])
    values.check_apart([epochs.wanted(commit(producer=each, name="")) for each in ("a", "b")])

    for second in (commit(name="another"), commit(producer="another")):
        with refusal(Reason.INVALID_EPOCH, match="named twice"):
            values.check_apart([one, epochs.wanted(second)])


@pytest.mark.parametrize("number", [0, values.COMMITS_MAX + 1])
def test_a_call_commits_something_and_not_too_much(number: int) -> None:
    with refusal(Reason.INVALID_EPOCH, match="1 to 64"):
        values.check_apart([epochs.wanted(commit(producer=f"p{each}", name="")) for each in range(number)])


def test_an_epoch_reports_each_partition_once() -> None:
    parts = (
        EpochPart(0, 10, 4, 3, 40, 1, 3),
        EpochPart(2, 5, 4, 1, 40, 4, 4),
    )
    record = EpochRecord("query", "name", 7, "run-1", 1_500_000, 2, "digest", parts, "kind:aa")

    assert epochs.epoch("orders", record) == pb.Epoch(
        sink="orders",
        producer="query",
        epoch=7,
        run="run-1",
        committed_at=convert.timestamp(1_500_000),
        tokens=2,
        digest="kind:aa",
        parts=[
            pb.EpochPart(partition=0, first_offset=10, records=4, pages=3),
            pb.EpochPart(partition=2, first_offset=5, records=4, pages=1),
        ],
    )


def test_a_producer_reports_what_it_has_staged_and_no_epoch_before_its_first() -> None:
    stages = [
        Stage(StageRecord(n, "query", "name", 7, f"t{n}", "run-1", 3), 0.0, 20.0 + n, records=n, size=10 * n)
        for n in (1, 2)
    ]

    message = epochs.producer(
        ProducerRecord("query", "name", "run-1", 3), stages, application="app-1", wall_us=lambda at: round(at * 1e6)
    )

    assert (message.staged_tokens, message.staged_records, message.staged_bytes) == (2, 3, 30)
    assert (message.application, message.staged_at.ToMicroseconds()) == ("app-1", 21_000_000)
    assert not message.HasField("last_epoch")
    assert not message.HasField("committed_at")


def test_epoch_zero_is_an_epoch() -> None:
    message = epochs.producer(
        ProducerRecord("query", "name", "run-1", 3, 0, "run-1", 1_500_000), [], application="", wall_us=round
    )

    assert message.HasField("last_epoch")
    assert message.committed_at == convert.timestamp(1_500_000)
