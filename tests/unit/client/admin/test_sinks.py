"""Questions to a broker, against a wire whose answers the test writes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from forebay.client import (
    BrokerUnavailable,
    DeliveryState,
    DropReason,
    Purged,
    RecordFlight,
    RecordLease,
    RecordPlace,
    RecordState,
    WaitReason,
)
from forebay.errors.reasons import Reason
from forebay.v1 import record_pb2, sink_pb2
from forebay.v1 import sink_service_pb2 as pb
from tests.support.calls.wire_fake import WireFake, abort, status
from tests.support.refusals import failure

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
STAMP = Timestamp(seconds=int(NOON.timestamp()))


class Asked:
    """An rpc that notes what it is asked and gives prepared answers."""

    def __init__(self, *answers: Any) -> None:
        self.requests: list[Any] = []
        self._answers = list(answers)

    def __call__(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.requests.append(request)
        return self._answers.pop(0)


STATS = pb.GetSinkStatsResponse(
    stats=pb.SinkStats(
        name="orders",
        incarnation="0123456789abcdef",
        partitions=[pb.PartitionStats(partition=0, next_offset=7), pb.PartitionStats(partition=1, next_offset=40)],
    )
)
SINK = pb.GetSinkResponse(sink=sink_pb2.Sink(name="orders", incarnation="0123456789abcdef"))
NOW: dict[str, Any] = {"incarnation": "0123456789abcdef", "end_offsets": {0: 7, 1: 40}}
"""Bounds of a purge: the ends of the partitions when it begins."""


def test_a_purge_says_how_far_and_returns_what_went() -> None:
    answer = pb.PurgeSinkResponse(
        partitions=[pb.PurgedPartition(partition=1, records=10, bytes=200, pages=2, earliest_offset=40)]
    )
    asked, now = Asked(answer, answer, answer), Asked(STATS, STATS)
    with WireFake(PurgeSink=asked, GetSinkStats=now, GetSink=Asked(SINK)) as fake, fake.client() as client:
        everything = client.sinks.purge("orders")
        client.sinks.purge("orders", partition=1, until_offset=0)
        client.sinks.purge("orders", until_time=NOON)

    assert everything == [Purged(1, 10, 200, 2, 40)]
    assert asked.requests == [
        pb.PurgeSinkRequest(name="orders", **NOW),
        pb.PurgeSinkRequest(name="orders", partition=1, until_offset=0, incarnation="0123456789abcdef"),
        pb.PurgeSinkRequest(name="orders", until_time=STAMP, **NOW),
    ]


def test_a_purge_whose_answer_is_lost_is_sent_again_as_it_was_whatever_was_published_since() -> None:
    requests: list[pb.PurgeSinkRequest] = []

    def lose_the_first(request: pb.PurgeSinkRequest, context: grpc.ServicerContext) -> pb.PurgeSinkResponse:
        requests.append(request)
        if len(requests) == 1:
            abort(context, status(grpc.StatusCode.UNAVAILABLE, ""))
        return pb.PurgeSinkResponse()

    with WireFake(PurgeSink=lose_the_first, GetSinkStats=Asked(STATS)) as fake, fake.client() as client:
        client.sinks.purge("orders")

    assert requests == [pb.PurgeSinkRequest(name="orders", **NOW)] * 2


def test_a_purge_that_does_not_learn_where_the_sink_ends_does_nothing_and_is_not_tried_later() -> None:
    def refuse(request: Any, context: grpc.ServicerContext) -> None:
        abort(context, status(grpc.StatusCode.UNAVAILABLE, ""))

    purges = Asked(pb.PurgeSinkResponse())
    fake = WireFake(PurgeSink=purges, GetSinkStats=refuse)
    with fake, fake.client() as client, pytest.raises(BrokerUnavailable):
        client.sinks.purge("orders")

    assert purges.requests == []


def test_a_purge_has_one_bound() -> None:
    with WireFake() as fake, fake.client() as client, failure(Reason.INVALID_RANGE):
        client.sinks.purge("orders", until_offset=1, until_time=NOON)


def test_a_purge_up_to_an_offset_that_no_record_has_is_reported_as_such() -> None:
    def refuse(request: Any, context: grpc.ServicerContext) -> None:
        abort(context, status(grpc.StatusCode.OUT_OF_RANGE, "OFFSET_AHEAD", offset=9, earliest=0, next=5))

    fake = WireFake(PurgeSink=refuse, GetSink=Asked(SINK))
    with fake, fake.client() as client, failure(Reason.OFFSET_AHEAD):
        client.sinks.purge("orders", until_offset=9)


def test_gaps_come_call_by_call() -> None:
    first = record_pb2.Gap(
        partition=1,
        first_offset=3,
        last_offset=9,
        reason=record_pb2.DROP_REASON_PURGED,
        at=STAMP,
        first_at=Timestamp(seconds=STAMP.seconds - 60),
        counts=[
            record_pb2.GapCount(reason=record_pb2.DROP_REASON_OVERFLOW, records=2),
            record_pb2.GapCount(reason=record_pb2.DROP_REASON_PURGED, records=5),
        ],
        subscription="audit",
        detail="no such column",
    )
    asked = Asked(
        pb.ListGapsResponse(gaps=[first], next_page_token="1:3:audit"),
        pb.ListGapsResponse(gaps=[record_pb2.Gap(partition=2, at=STAMP)]),
    )
    with WireFake(ListGaps=asked) as fake, fake.client() as client:
        found = list(client.sinks.gaps("orders"))

    assert [request.page_token for request in asked.requests] == ["", "1:3:audit"]
    assert (found[0].reason, len(found[0]), found[0].at) == (DropReason.PURGED, 7, NOON)
    assert found[0].first_at is not None
    assert (found[0].at - found[0].first_at).total_seconds() == 60
    assert found[0].counts == {DropReason.OVERFLOW: 2, DropReason.PURGED: 5}
    assert (found[0].subscription, found[0].detail) == ("audit", "no such column")
    assert (found[1].partition, found[1].first_at, found[1].counts) == (2, None, {})


def test_an_explanation_is_whole() -> None:
    asked = Asked(
        pb.ExplainRecordResponse(
            place=pb.RECORD_PLACE_DISK,
            accepted_at=STAMP,
            page_first_offset=0,
            page_last_offset=9,
            page_bytes=100,
            subscription="audit",
            state=pb.RECORD_STATE_IN_FLIGHT,
            flight=pb.RecordFlight(consumer_id="c", owner_epoch=7, revision=2, sent_at=STAMP),
            attempts=3,
            delivered_before=True,
            delivery_state=pb.DELIVERY_STATE_PROBING,
            wait=pb.WAIT_REASON_ANSWER,
            wait_until=STAMP,
            wait_detail="x",
            records_before=5,
            watermark=1,
            text="all of it",
            lease=pb.RecordLease(holder="spark-1", taken_at=STAMP, until=STAMP),
        )
    )
    with WireFake(ExplainRecord=asked) as fake, fake.client() as client:
        found = client.sinks.explain("orders", 4, partition=2, subscription="audit")

    assert asked.requests == [pb.ExplainRecordRequest(sink="orders", partition=2, offset=4, subscription="audit")]
    assert (found.partition, found.offset, found.place, found.accepted_at) == (2, 4, RecordPlace.DISK, NOON)
    assert (found.page, found.page_bytes, found.gap, found.rejection) == ((0, 9), 100, None, None)
    assert (found.state, found.flight) == (RecordState.IN_FLIGHT, RecordFlight("c", 7, 2, NOON))
    assert (found.attempts, found.delivered_before, found.delivery_state) == (3, True, DeliveryState.PROBING)
    assert (found.wait, found.wait_until, found.wait_detail) == (WaitReason.ANSWER, NOON, "x")
    assert (found.records_before, found.watermark, found.text) == (5, 1, "all of it")
    assert found.lease == RecordLease("spark-1", NOON, NOON)


def test_enumeration_values_of_a_newer_broker_are_unspecified() -> None:
    asked = Asked(pb.ExplainRecordResponse(place=77, state=77, wait=77))  # type: ignore[arg-type]  # not known yet
    with WireFake(ExplainRecord=asked) as fake, fake.client() as client:
        found = client.sinks.explain("orders", 4)

    assert (found.place, found.state, found.wait) == (
        RecordPlace.UNSPECIFIED,
        RecordState.UNSPECIFIED,
        WaitReason.UNSPECIFIED,
    )
    assert (found.page, found.flight, found.accepted_at, found.wait_until) == (None, None, None, None)
    assert found.lease is None
