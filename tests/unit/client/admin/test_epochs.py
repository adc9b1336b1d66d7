"""Tickets, commits, aborts and questions about epochs over a real connection, to a broker that a test scripts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from forebay.client import (
    BrokerUnavailable,
    Client,
    Epoch,
    EpochCheck,
    EpochCommit,
    EpochContent,
    EpochPart,
    Producer,
    Stage,
    StagedPart,
    StagedSummary,
    StagedToken,
)
from forebay.client.admin.epochs import commit_message
from forebay.client.transport.rendezvous import endpoint_of
from forebay.errors.reasons import Reason
from forebay.v1 import epoch_service_pb2 as pb
from tests.support.calls.wire_fake import WireFake, abort, status
from tests.support.refusals import failure

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
STAMP = Timestamp(seconds=int(NOON.timestamp()))
STAGE = Stage(producer="q:orders", write_name="orders", epoch=3, run="r", ticket=8, token="t", takeover=True)
STAGED = StagedToken("t", (StagedPart(0, pages=2, records=20), StagedPart(2, pages=1, records=1)))


class Asked:
    """Answers in turn, the last for ever, and keeps what was asked."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.requests: list[Any] = []

    def __call__(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.requests.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, grpc.StatusCode):
            abort(context, status(answer, "DRAINING" if answer is grpc.StatusCode.UNAVAILABLE else "DISK_FULL"))
        return answer


def refused(code: grpc.StatusCode, reason: str) -> Callable[[Any, grpc.ServicerContext], None]:
    return lambda request, context: abort(context, status(code, reason))


def test_a_ticket_is_what_the_broker_gives() -> None:
    with WireFake(TakeTicket=Asked(pb.TakeTicketResponse(ticket=1 << 40))) as fake, fake.client() as client:
        assert client.epochs.take_ticket("orders") == 1 << 40


def test_a_commit_names_what_was_staged() -> None:
    answer = pb.CommitEpochResponse(
        epochs=[
            pb.Epoch(
                sink="orders",
                producer="q:orders",
                epoch=3,
                run="r",
                committed_at=STAMP,
                parts=[pb.EpochPart(partition=2, first_offset=7, records=21, pages=3)],
                tokens=1,
                digest="kind:aa",
            )
        ]
    )
    asked = Asked(answer)
    content = EpochContent(21, "kind:aa")
    with WireFake(CommitEpoch=asked) as fake, fake.client() as client:
        commit = EpochCommit.of("orders", STAGE, [STAGED], content=content, check=EpochCheck.CONTENT)
        committed = client.epochs.commit([commit])

    assert asked.requests == [
        pb.CommitEpochRequest(
            commits=[
                pb.EpochCommit(
                    sink="orders",
                    producer="q:orders",
                    write_name="orders",
                    epoch=3,
                    run="r",
                    ticket=8,
                    takeover=True,
                    tokens=[
                        pb.StagedToken(
                            token="t",
                            parts=[
                                pb.StagedPart(partition=0, pages=2, records=20),
                                pb.StagedPart(partition=2, pages=1, records=1),
                            ],
                        )
                    ],
                    content=pb.EpochContent(records=21, digest="kind:aa"),
                    check=pb.EPOCH_CHECK_CONTENT,
                )
            ]
        )
    ]
    assert not committed.already_committed
    assert committed.epochs == (Epoch("orders", "q:orders", 3, "r", NOON, (EpochPart(2, 7, 21, 3),), 1, "kind:aa"),)
    assert STAGED.records == 21


def test_a_token_with_many_parts_is_named_by_its_summary() -> None:
    parts = tuple(StagedPart(partition, pages=1, records=3) for partition in range(128))
    token = StagedToken("t", parts, incarnation="i")

    summarized = token.summarized

    assert summarized == StagedToken("t", incarnation="i", summary=StagedSummary.of(parts[::-1]))
    assert summarized.records == token.records == 384
    assert summarized.summarized is summarized
    assert STAGED.summarized is STAGED


def test_a_commit_of_many_tasks_and_partitions_is_small() -> None:
    parts = tuple(StagedPart(partition, pages=1, records=3) for partition in range(128))
    summary = StagedSummary.of(parts)
    tokens = [StagedToken(f"{task:032d}", summary=summary) for task in range(10_000)]

    assert commit_message(EpochCommit.of("orders", STAGE, tokens)).ByteSize() < 1 << 20


@pytest.mark.slow
def test_a_commit_is_made_again_until_its_outcome_is_known() -> None:
    answer = pb.CommitEpochResponse(epochs=[pb.Epoch(sink="orders")], already_committed=True)
    away = [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED] * 5
    asked = Asked(*away, answer)
    with WireFake(CommitEpoch=asked) as fake, fake.client() as client:
        committed = client.epochs.commit([EpochCommit.of("orders", STAGE, [STAGED])], patience_s=60)

    assert committed.already_committed
    assert len(asked.requests) == len(away) + 1
    assert all(request == asked.requests[0] for request in asked.requests)


def test_a_commit_is_not_tried_for_longer_than_it_may() -> None:
    asked = Asked(grpc.StatusCode.UNAVAILABLE)
    with WireFake(CommitEpoch=asked) as fake, fake.client() as client, pytest.raises(BrokerUnavailable):
        client.epochs.commit([EpochCommit.of("orders", STAGE, [])], patience_s=0)

    assert len(asked.requests) == 1
    with Client("127.0.0.1:1") as client, failure(Reason.INVALID_SETTING, match="patience_s"):
        client.epochs.commit([EpochCommit.of("orders", STAGE, [])], patience_s=-1)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (grpc.StatusCode.FAILED_PRECONDITION, Reason.STAGED_INCOMPLETE),
        (grpc.StatusCode.ABORTED, Reason.EPOCH_FENCED),
    ],
)
def test_a_refused_commit_is_not_made_again(code: grpc.StatusCode, reason: Reason) -> None:
    with (
        WireFake(CommitEpoch=refused(code, reason.name)) as fake,
        fake.client() as client,
        failure(reason),
    ):
        client.epochs.commit([EpochCommit.of("orders", STAGE, [STAGED])])


def test_sinks_of_different_brokers_are_not_committed_together() -> None:
    endpoints = ("127.0.0.1:1", "127.0.0.1:2")
    names = [f"sink-{number}" for number in range(100)]
    first = next(name for name in names if endpoint_of(name, endpoints) == endpoints[0])
    second = next(name for name in names if endpoint_of(name, endpoints) == endpoints[1])

    with Client(endpoints) as client, failure(Reason.INVALID_EPOCH, match="different brokers") as error:
        client.epochs.commit([EpochCommit.of(first, STAGE, []), EpochCommit.of(second, STAGE, [])])

    assert first in str(error.value)
    assert second in str(error.value)


def test_an_invalid_commit_is_refused_before_it_is_sent() -> None:
    with Client("127.0.0.1:1") as client:
        with failure(Reason.INVALID_EPOCH, match="is empty"):
            client.epochs.commit([])
        with failure(Reason.INVALID_EPOCH, match="epoch = -1"):
            client.epochs.commit([EpochCommit("orders", "p", epoch=-1, run="r", ticket=1)])


def test_an_abort_names_its_tokens() -> None:
    asked = Asked(pb.AbortEpochResponse(aborted=1))
    with WireFake(AbortEpoch=asked) as fake, fake.client() as client:
        assert client.epochs.abort("orders", "q:orders", 3, ["t", "u"]) == 1

    assert asked.requests == [pb.AbortEpochRequest(sink="orders", producer="q:orders", epoch=3, tokens=["t", "u"])]


def test_an_epoch_is_asked_for_by_number_or_as_the_last() -> None:
    asked = Asked(pb.GetEpochResponse(epoch=pb.Epoch(sink="orders", producer="p", epoch=0, committed_at=STAMP)))
    with WireFake(GetEpoch=asked) as fake, fake.client() as client:
        assert client.epochs.get("orders", "p").committed_at == NOON
        assert client.epochs.get("orders", "p", 0).epoch == 0

    assert [request.HasField("epoch") for request in asked.requests] == [False, True]


def test_an_epoch_that_is_not_there_is_not_found() -> None:
    not_found = refused(grpc.StatusCode.NOT_FOUND, "EPOCH_NOT_FOUND")
    with WireFake(GetEpoch=not_found) as fake, fake.client() as client, failure(Reason.EPOCH_NOT_FOUND):
        client.epochs.get("orders", "p", 1)


def test_producers_come_call_by_call() -> None:
    full = pb.Producer(
        producer="p",
        write_name="w",
        last_epoch=0,
        committed_at=STAMP,
        run="r",
        ticket=5,
        staged_tokens=1,
        staged_records=10,
        staged_bytes=100,
    )
    asked = Asked(
        pb.ListEpochsResponse(producers=[full], next_page_token="p"),
        pb.ListEpochsResponse(producers=[pb.Producer(producer="q")]),
    )
    with WireFake(ListEpochs=asked) as fake, fake.client() as client:
        found = list(client.epochs.list("orders"))

    assert [request.page_token for request in asked.requests] == ["", "p"]
    assert found == [
        Producer("p", "w", 0, NOON, "r", 5, 1, 10, 100, None, ""),
        Producer("q", "", None, None, "", 0, 0, 0, 0, None, ""),
    ]
