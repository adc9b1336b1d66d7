"""The options of a read are read once, and a wrong one says what is right."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta, timezone

import pytest

from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.read import Bound, EventTimes, ResendOptions, read_options


def test_a_read_covers_everything_by_default() -> None:
    options = read_options({"sink": "a"}, {})

    assert options.starting.of(3) is Bound.EARLIEST
    assert options.ending.of(3) is Bound.LATEST
    assert options.fail_on_data_loss


def test_offsets_are_named_by_partition() -> None:
    options = read_options({"sink": "a", "startingoffsets": '{"0": 12, "2": "latest"}'}, {})

    assert [options.starting.of(partition) for partition in range(3)] == [12, Bound.EARLIEST, Bound.LATEST]


@pytest.mark.parametrize(
    "offsets", ["yesterday", "[1]", '{"0": -3}', '{"0": 1.5}', '{"0": true}', '{"x": 1}', "7", '{"0": null}']
)
def test_offsets_of_another_form_are_refused_with_an_example(offsets: str) -> None:
    with pytest.raises(ForebaySparkError, match="startingOffsets") as error:
        read_options({"sink": "a", "startingoffsets": offsets}, {})

    assert '{"0": 1200' in error.value.remedy


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-31T23:59:59Z", datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC)),
        ("2026-01-31 23:59:59", datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC)),
        ("2026-01-31T23:59:59+02:00", datetime(2026, 1, 31, 23, 59, 59, tzinfo=timezone(timedelta(hours=2)))),
        ("1500", datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)),
    ],
)
def test_a_time_is_iso_8601_or_milliseconds_and_utc_where_it_does_not_say(text: str, expected: datetime) -> None:
    assert read_options({"sink": "a", "startingTimestamp": text}, {}).starting.at == expected


def test_a_time_of_another_form_is_refused_with_an_example() -> None:
    with pytest.raises(ForebaySparkError, match="startingTimestamp is 'yesterday'") as error:
        read_options({"sink": "a", "startingTimestamp": "yesterday"}, {})

    assert "2026-01-31T23:59:59Z" in error.value.remedy


def test_offsets_and_a_time_for_the_same_end_are_refused() -> None:
    with pytest.raises(ForebaySparkError, match="Both startingOffsets and startingTimestamp"):
        read_options({"sink": "a", "startingTimestamp": "1500", "startingOffsets": "latest"}, {})


def test_a_stream_has_no_end_and_a_batch_no_trigger() -> None:
    with pytest.raises(ForebaySparkError, match="endingOffsets is only for a batch"):
        read_options({"sink": "a", "endingOffsets": "latest"}, {}, is_stream=True)
    for name in ("subscription", "maxRecordsPerTrigger", "maxBytesPerTrigger"):
        with pytest.raises(ForebaySparkError, match=f"{name} is only for a stream"):
            read_options({"sink": "a", name: "1"}, {})


def test_times_of_events_are_a_filter_beside_the_offsets() -> None:
    given = {"sink": "a", "timestamps": "event_time", "startingTimestamp": "1970-01-01T00:00:01.000001Z"}

    options = read_options({**given, "endingTimestamp": "2000", "startingOffsets": '{"0": 7}'}, {}, is_stream=True)

    assert options.event_times == EventTimes(1_000_001, 2_000_000)
    assert (options.starting.at, options.starting.of(0), options.ending.at) == (None, 7, None)
    assert read_options(given, {}).event_times == EventTimes(1_000_001, None)
    assert read_options({"sink": "a", "timestamps": "accepted", "startingTimestamp": "1"}, {}).event_times is None


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"timestamps": "event_time"}, "neither startingTimestamp nor endingTimestamp is set"),
        ({"timestamps": "created"}, "timestamps is 'created'"),
        ({"timestamps": "event_time", "startingTimestamp": "2", "endingTimestamp": "2"}, "the range is empty"),
        ({"timestamps": "event_time", "endingTimestamp": "june"}, "endingTimestamp is 'june'"),
    ],
    ids=str,
)
def test_times_of_events_that_select_nothing_are_refused(options: dict[str, str], why: str) -> None:
    with pytest.raises(ForebaySparkError, match=why):
        read_options({"sink": "a", **options}, {})


def test_only_times_of_events_end_a_stream() -> None:
    with pytest.raises(ForebaySparkError, match="endingTimestamp is only for a batch"):
        read_options({"sink": "a", "endingTimestamp": "2"}, {}, is_stream=True)


def test_a_stream_looks_longer_for_its_broker() -> None:
    assert read_options({"sink": "a"}, {}).target.connect_timeout_s == 10
    assert read_options({"sink": "a"}, {}, is_stream=True).target.connect_timeout_s == 30


def test_read_options_can_be_pickled() -> None:
    options = read_options({"sink": "a", "columns": "value, key", "metadata": "_offset"}, {})

    assert (options.columns, options.metadata) == (("value", "key"), ("_offset",))
    assert pickle.loads(pickle.dumps(options)) == options


def test_a_stream_of_resends_names_a_subscription_and_has_no_start() -> None:
    def read(**more: str) -> ResendOptions | None:
        return read_options({"sink": "a", "mode": "resend", **more}, {}, is_stream=True).resend

    assert read(subscription="default") == ResendOptions("default", 600.0, before_due=False)
    assert read(subscription="a", resend_lease_s="30", resendBeforeDue="true") == ResendOptions(
        "a", 30.0, before_due=True
    )
    with pytest.raises(ForebaySparkError, match="option subscription is not set"):
        read()
    for name in ("startingOffsets", "startingTimestamp"):
        with pytest.raises(ForebaySparkError, match=f"{name} has no meaning with mode resend"):
            read(**{"subscription": "default", name: "1500"})
    with pytest.raises(ForebaySparkError, match="timestamps has no meaning with mode resend"):
        read(subscription="default", timestamps="event_time")
    for lease_s in ("0.5", "86401", "soon"):
        with pytest.raises(ForebaySparkError, match="seconds from 1 to 86400"):
            read(subscription="default", resend_lease_s=lease_s)


def test_resend_options_are_refused_without_mode_resend_and_the_mode_is_refused_for_a_batch() -> None:
    for name in ("resend_lease_s", "resend_before_due"):
        with pytest.raises(ForebaySparkError, match=f"{name} has no meaning with mode replay"):
            read_options({"sink": "a", name: "1"}, {}, is_stream=True)
    with pytest.raises(ForebaySparkError, match="mode is only for a stream"):
        read_options({"sink": "a", "mode": "resend"}, {})
    with pytest.raises(ForebaySparkError, match="one of: replay, resend"):
        read_options({"sink": "a", "mode": "other"}, {}, is_stream=True)
    assert read_options({"sink": "a", "mode": "replay"}, {}, is_stream=True).resend is None


def test_options_that_mean_the_same_for_kafka_have_its_names_and_forms() -> None:
    given = {
        "sink": "orders",
        "maxOffsetsPerTrigger": "7",
        "startingOffsets": '{"orders": {"0": 23, "1": -2, "2": -1}}',
    }

    found = read_options(given, {}, is_stream=True)

    assert found.max_records_per_trigger == 7
    assert found.starting.by_partition == {0: 23, 1: Bound.EARLIEST, 2: Bound.LATEST}


@pytest.mark.parametrize(
    ("option", "instead"),
    [("subscribe", "sink"), ("kafka.bootstrap.servers", "endpoint"), ("kafka.group.id", "subscription")],
)
def test_an_option_of_kafka_that_has_another_name_here_is_refused_with_that_name(option: str, instead: str) -> None:
    with pytest.raises(ForebaySparkError, match=f"equivalent of this Kafka option is {instead}"):
        read_options({"sink": "orders", option: "x"}, {})
