from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from forebay.client import InvalidPage
from forebay.client.values import convert
from forebay.client.values.brokers import BrokerInfo
from forebay.client.values.convert import EPOCH, MICROSECOND, from_us, headers_message, to_us, value
from forebay.client.values.dead_letters import DeadLetter
from forebay.client.values.epochs import Epoch, EpochPart, Producer
from forebay.client.values.explanations import Explanation, Purged, RecordFlight, RecordLease
from forebay.client.values.records import DropReason, Gap, PeekedRecord, Record
from forebay.client.values.sinks import (
    DeliveryState,
    LifetimeTotals,
    PartitionStats,
    Sink,
    SinkStats,
    SubscriptionPartitionStats,
    SubscriptionStats,
)
from forebay.page.encoding import encode_headers
from forebay.v1 import (
    admin_service_pb2,
    buffer_service_pb2,
    dead_letter_service_pb2,
    epoch_service_pb2,
    record_pb2,
    sink_pb2,
    sink_service_pb2,
)


@pytest.mark.parametrize(
    "when",
    [
        datetime.min.replace(tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1, 12, 30, 15, 123_456, tzinfo=timezone(timedelta(hours=2))),
    ],
)
def test_a_time_round_trips_to_the_microsecond(when: datetime) -> None:
    assert from_us(to_us(when)) == when
    assert to_us(to_us(when)) == to_us(when)


@pytest.mark.parametrize("microseconds", [1_700_000_000_000_000_000, 2**63, -(2**63), -62_135_596_800_000_001])
def test_a_number_that_is_no_time_is_refused_before_it_is_stored(microseconds: int) -> None:
    with pytest.raises(InvalidPage, match="years 1 to 9999"):
        to_us(microseconds)


@given(st.datetimes(timezones=st.timezones() | st.just(UTC)))
def test_the_microseconds_of_a_time_are_counted_from_1970(when: datetime) -> None:
    assert to_us(when) == (when - EPOCH) // MICROSECOND


def test_a_time_of_a_kind_whose_differences_are_finer_is_rounded_down() -> None:
    class Fine(timedelta):
        def __floordiv__(self, other: Any) -> Any:
            return -8 if other == MICROSECOND else NotImplemented

    class Instant(datetime):
        def __sub__(self, other: Any) -> Any:
            return Fine(microseconds=-7)

    assert to_us(Instant(1970, 1, 1, tzinfo=UTC)) == -8


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([b"", b"x", "x", "\xe4", b"l" * 70])), max_size=3),
        max_size=6,
    )
)
def test_headers_are_the_same_whatever_was_published_before(messages: list[list[tuple[str, Any]]]) -> None:
    for pairs in messages:
        assert headers_message(pairs) == encode_headers(pairs)
        assert headers_message(dict(pairs)) == encode_headers(dict(pairs).items())


@pytest.mark.parametrize("other", [bytearray(b"short"), memoryview(b"short"), None, 5])
def test_a_header_of_another_type_is_refused_although_its_name_and_an_equal_value_were_published(other: Any) -> None:
    headers_message({"name": b"short", "unused": b""})

    for name in ("name", "a name that was never published"):
        with pytest.raises(InvalidPage, match="its value bytes or text"):
            headers_message({name: other})


def test_text_of_another_class_is_encoded_each_time() -> None:
    class Text(str):
        __slots__ = ("form",)
        form: bytes

        def encode(self, *_: Any) -> bytes:
            return self.form

    text = Text("x")
    text.form = b"1"
    first = headers_message({"name": text})
    text.form = b"2"

    assert (first, headers_message({"name": text})) == tuple(encode_headers([("name", form)]) for form in (b"1", b"2"))


def test_few_short_values_of_headers_are_kept() -> None:
    for number in range(2 * convert.LAST_FIELDS_MAX):
        headers_message({f"name-{number}": b"v", "long": bytes(convert.LAST_BYTES_MAX + 1)})

    assert 0 < len(convert.LAST_FIELDS) <= convert.LAST_FIELDS_MAX
    assert "long" not in convert.LAST_FIELDS


def test_a_dict_of_too_many_headers_is_refused() -> None:
    with pytest.raises(InvalidPage, match="65 headers: must be at most 64"):
        headers_message({f"name-{number}": b"v" for number in range(65)})


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(InvalidPage, match="time zone"):
        to_us(datetime(2026, 1, 1))  # noqa: DTZ001 - the mistake


@pytest.mark.parametrize(
    ("kind", "message", "given"),
    [
        (BrokerInfo, admin_service_pb2.GetBrokerInfoResponse(), {"repairs": ()}),
        (DeadLetter, dead_letter_service_pb2.DeadLetter(), {"record": Record(b"")}),
        (Epoch, epoch_service_pb2.Epoch(), {}),
        (EpochPart, epoch_service_pb2.EpochPart(), {}),
        (Explanation, sink_service_pb2.ExplainRecordResponse(), {"partition": 1, "offset": 2, "page": None}),
        (Gap, record_pb2.Gap(), {}),
        (LifetimeTotals, sink_service_pb2.LifetimeTotals(), {}),
        (PartitionStats, sink_service_pb2.PartitionStats(), {}),
        (PeekedRecord, buffer_service_pb2.PeekedRecord(), {}),
        (Producer, epoch_service_pb2.Producer(), {}),
        (Purged, sink_service_pb2.PurgedPartition(), {}),
        (RecordFlight, sink_service_pb2.RecordFlight(), {}),
        (RecordLease, sink_service_pb2.RecordLease(), {}),
        (Sink, sink_pb2.Sink(), {}),
        (SinkStats, sink_service_pb2.SinkStats(), {}),
        (SubscriptionPartitionStats, sink_service_pb2.SubscriptionPartitionStats(), {}),
        (SubscriptionStats, sink_service_pb2.SubscriptionStats(), {}),
    ],
)
def test_an_empty_message_is_a_value(kind: Any, message: Any, given: dict[str, Any]) -> None:
    found = value(kind, message, **given)

    assert {name: getattr(found, name) for name in given} == given


def test_attributes_are_read_from_the_fields_of_their_name() -> None:
    message = sink_service_pb2.SinkStats(name="orders", at=Timestamp(seconds=5))
    part = message.partitions.add(partition=3)
    part.dropped.add(reason=record_pb2.DROP_REASON_OVERFLOW, records=7)
    lane = message.subscriptions.add(name="default", consumers=2).partitions.add(
        watermark=9, pending_age=Duration(seconds=1, nanos=500_000_000), state=sink_service_pb2.DELIVERY_STATE_PAUSED
    )
    lane.lifetime.acked = 4

    found = value(SinkStats, message)

    assert (found.name, found.at) == ("orders", from_us(5_000_000))
    assert [(one.partition, dict(one.dropped)) for one in found.partitions] == [(3, {DropReason.OVERFLOW: 7})]
    [account] = found.subscriptions[0].partitions
    assert (found.subscriptions[0].consumers, account.watermark, account.pending_age_s) == (2, 9, 1.5)
    assert (account.state, account.retry_at, account.lifetime.acked) == (DeliveryState.PAUSED, None, 4)


def test_an_attribute_of_a_field_that_is_set_is_a_value_and_else_none() -> None:
    message = sink_service_pb2.ExplainRecordResponse()
    given: dict[str, Any] = {"partition": 0, "offset": 0, "page": None}
    message.flight.consumer_id = "a"

    found = value(Explanation, message, **given)

    assert isinstance(found.flight, RecordFlight)
    assert (found.flight.consumer_id, found.gap, found.accepted_at) == ("a", None, None)


def test_a_number_of_a_newer_broker_is_unspecified() -> None:
    message = sink_service_pb2.SubscriptionPartitionStats.FromString(b"\x68\x63")

    assert value(SubscriptionPartitionStats, message).state is DeliveryState.UNSPECIFIED


def test_a_map_is_a_dict_and_a_choice_may_be_its_name() -> None:
    peeked = value(PeekedRecord, buffer_service_pb2.PeekedRecord(headers={"a": "1"}))
    draining = admin_service_pb2.GetBrokerInfoResponse(state=admin_service_pb2.BROKER_STATE_DRAINING)
    info = value(BrokerInfo, draining, repairs=())

    assert peeked.headers == {"a": "1"}
    assert (info.state, info.warnings) == ("DRAINING", ())
