"""A publisher that stages: all of it or an error, over a real connection to a broker that a test scripts."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import grpc
import pytest
from google.rpc import status_pb2

from forebay.client import (
    DeliveryTimeout,
    Stage,
    StagedPart,
    StagedToken,
    WriterFenced,
)
from forebay.errors.reasons import Reason
from forebay.v1 import buffer_service_pb2 as pb
from tests.support.calls.wire_fake import Log, WireFake, abort, status
from tests.support.refusals import failure

INCARNATION = "i"
"""Of the sink that the fake serves."""
STAGE = Stage(producer="q:orders", write_name="orders", epoch=3, run="r", ticket=8, takeover=True)
Requests = Iterator[pb.PublishRequest]
Responses = Iterator[pb.PublishResponse]


@pytest.fixture
def log() -> Log:
    return Log(partitions=3)


@pytest.fixture
def fake(log: Log) -> Iterator[WireFake]:
    with WireFake(Publish=log.publish) as running:
        yield running


def test_pages_are_staged_and_counted_by_partition(fake: WireFake, log: Log) -> None:
    with fake.client() as client, client.publisher("s", stage=STAGE, page_records=2) as publisher:
        receipts = publisher.send_many([b"a", b"b", b"c"], partition=2).result(5)
        publisher.send(b"d", partition=0)
        publisher.flush(5)
        staged = publisher.staged()

    assert [(one.staged, one.first_offset, one.last_offset) for one in receipts] == [(True, None, None)] * 2
    assert staged == StagedToken(STAGE.token, (StagedPart(0, 1, 1), StagedPart(2, 2, 3)), INCARNATION)
    assert [page.sequence for page in log.pages[2]] == [0, 1]
    assert log.opens[0].stage == pb.PublishStage(
        producer="q:orders", write_name="orders", epoch=3, token=STAGE.token, run="r", ticket=8, takeover=True
    )
    assert log.closes == 0  # what is staged is not to be forgotten


def test_an_attempt_without_a_record_stages_nothing(fake: WireFake) -> None:
    with fake.client() as client, client.publisher("s", stage=STAGE) as publisher:
        assert publisher.staged() == StagedToken(STAGE.token, (), INCARNATION)


def test_tokens_are_random_unless_they_are_given() -> None:
    assert len({Stage("p", 0, "r", 1).token for _ in range(100)}) == 100
    assert Stage("p", 0, "r", 1, token="mine").token == "mine"


def test_a_publisher_without_a_stage_has_staged_nothing(fake: WireFake) -> None:
    with fake.client() as client, client.publisher("s") as publisher, failure(Reason.STAGING_UNSUPPORTED):
        publisher.staged()


def test_numbers_that_no_stage_can_have_are_refused_before_a_connection(fake: WireFake, log: Log) -> None:
    with fake.client() as client, failure(Reason.INVALID_EPOCH):
        client.publisher("s", stage=Stage("p", epoch=-1, run="r", ticket=1))

    assert log.opens == []


def test_a_broken_stream_is_resumed_and_every_page_is_counted_once(log: Log) -> None:
    answered = 0

    def publish(requests: Requests, context: grpc.ServicerContext) -> Responses:
        nonlocal answered
        for response in log.publish(requests, context):
            answered += 1
            if answered in {4, 9}:  # the page is staged, its receipt is lost
                context.abort(grpc.StatusCode.UNAVAILABLE, "broken")
            yield response

    with (
        WireFake(Publish=publish) as fake,
        fake.client() as client,
        client.publisher("s", stage=STAGE, page_records=1) as publisher,
    ):
        publisher.send_many([b"%d" % number for number in range(20)], partition=1)
        publisher.flush(5)
        staged = publisher.staged()

    assert staged.parts == (StagedPart(1, 20, 20),)
    assert log.values(1) == [b"%d" % number for number in range(20)]
    assert [one.HasField("writer_epoch") for one in log.opens] == [False, True, True]
    assert all(one.stage.token == STAGE.token for one in log.opens)


def test_a_stage_discarded_meanwhile_ends_the_publisher(log: Log) -> None:
    def publish(requests: Requests, context: grpc.ServicerContext) -> Responses:
        for number, response in enumerate(log.publish(requests, context)):
            if number == 2:
                log.expected.clear()  # as after an abort: nothing is known of the token
                context.abort(grpc.StatusCode.UNAVAILABLE, "broken")
            yield response

    with WireFake(Publish=publish) as fake, fake.client() as client:
        publisher = client.publisher("s", stage=STAGE)
        publisher.send(b"first", partition=0).result(5)
        second = publisher.send(b"second", partition=0)
        with pytest.raises(WriterFenced, match="no longer has the staged pages"):
            second.result(5)
        with pytest.raises(WriterFenced):
            publisher.close()

    assert len(log.opens) == 2


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, Reason.INVALID_PAGE),
        (grpc.StatusCode.ABORTED, Reason.SEQUENCE_GAP),
    ],
)
def test_a_page_that_is_refused_for_good_ends_the_publisher(
    fake: WireFake, log: Log, code: grpc.StatusCode, reason: Reason
) -> None:
    log.refuse = lambda page: status(code, reason.name) if page.sequence == 1 else None
    with fake.client() as client:
        publisher = client.publisher("s", stage=STAGE, page_records=1, linger_ms=0)
        publisher.send(b"good", partition=0).result(5)
        bad = publisher.send(b"bad", partition=0)
        with failure(reason):
            bad.result(5)
        with failure(reason):
            publisher.close()

    assert [one.HasField("writer_epoch") for one in log.opens] == [False]  # no new epoch, no second try


def test_a_full_sink_makes_it_wait_and_says_so(fake: WireFake, log: Log, caplog: pytest.LogCaptureFixture) -> None:
    refusals = [status(grpc.StatusCode.RESOURCE_EXHAUSTED, "SINK_FULL", retry_after_s=0.02)] * 3

    def refuse(page: pb.PublishPage) -> status_pb2.Status | None:
        return refusals.pop() if refusals else None

    log.refuse = refuse
    with (
        caplog.at_level(logging.WARNING, "forebay.client"),
        fake.client() as client,
        client.publisher("s", stage=STAGE) as publisher,
    ):
        assert publisher.send(b"x", partition=0).result(5).staged

    assert [record.message.split(" reason=")[1].split()[0] for record in caplog.records] == ["SINK_FULL"]


def test_a_sink_that_stays_full_ends_it_in_time_and_is_named(fake: WireFake, log: Log) -> None:
    full = status(grpc.StatusCode.RESOURCE_EXHAUSTED, "SINK_FULL", "sink 's' is full", retry_after_s=0.02)
    log.refuse = lambda page: full
    with fake.client() as client:
        publisher = client.publisher("s", stage=STAGE, delivery_timeout_s=0.3)
        with pytest.raises(DeliveryTimeout, match="sink 's' is full") as error:
            publisher.send(b"x", partition=0).result(5)
        with pytest.raises(DeliveryTimeout):
            publisher.close()

    assert error.value.refusal == "SINK_FULL"
    assert len(log.opens) == 1


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (grpc.StatusCode.ALREADY_EXISTS, Reason.ALREADY_COMMITTED),
        (grpc.StatusCode.ABORTED, Reason.EPOCH_FENCED),
        (grpc.StatusCode.FAILED_PRECONDITION, Reason.STAGING_UNSUPPORTED),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_an_epoch_that_takes_nothing_ends_it(log: Log, code: grpc.StatusCode, reason: Reason, at_once: bool) -> None:
    def publish(requests: Requests, context: grpc.ServicerContext) -> Responses:
        if not at_once:
            yield next(log.publish(requests, context))
            next(requests)
        abort(context, status(code, reason.name))

    with (
        WireFake(Publish=publish) as fake,
        failure(reason),
        fake.client() as client,
        client.publisher("s", stage=STAGE) as publisher,
    ):
        publisher.send(b"x", partition=0)
