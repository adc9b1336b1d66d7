"""The options of a read are read once, and a wrong one says what is right."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta, timezone

import pytest

from holdfast.spark.errors import HoldfastSparkError
from holdfast.spark.read_options import Bound, Resending, read_options


def test_a_read_covers_everything_unless_told_otherwise() -> None:
    options = read_options({"sink": "a"}, {})

    assert options.starting.of(3) is Bound.EARLIEST
    assert options.ending.of(3) is Bound.LATEST
    assert options.fail_on_data_loss


def test_offsets_are_named_by_partition() -> None:
    options = read_options({"sink": "a", "startingoffsets": '{"0": 12, "2": "latest"}'}, {})

    assert [options.starting.of(partition) for partition in range(3)] == [12, Bound.EARLIEST, Bound.LATEST]


@pytest.mark.parametrize(
    "offsets", ["yesterday", "[1]", '{"0": -1}', '{"0": 1.5}', '{"0": true}', '{"x": 1}', "7", '{"0": null}']
)
def test_offsets_of_another_form_are_refused_with_an_example(offsets: str) -> None:
    with pytest.raises(HoldfastSparkError, match="startingOffsets") as error:
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
    with pytest.raises(HoldfastSparkError, match="startingTimestamp is 'yesterday'") as error:
        read_options({"sink": "a", "startingTimestamp": "yesterday"}, {})

    assert "2026-01-31T23:59:59Z" in error.value.remedy


def test_offsets_and_a_time_for_the_same_end_are_refused() -> None:
    with pytest.raises(HoldfastSparkError, match="Both startingOffsets and startingTimestamp"):
        read_options({"sink": "a", "startingTimestamp": "1500", "startingOffsets": "latest"}, {})


def test_a_stream_has_no_end_and_a_batch_no_trigger() -> None:
    with pytest.raises(HoldfastSparkError, match="endingOffsets is for a batch"):
        read_options({"sink": "a", "endingOffsets": "latest"}, {}, is_stream=True)
    for name in ("subscription", "maxRecordsPerTrigger", "maxBytesPerTrigger"):
        with pytest.raises(HoldfastSparkError, match=f"{name} is for a stream"):
            read_options({"sink": "a", name: "1"}, {})


def test_a_stream_looks_longer_for_its_broker() -> None:
    assert read_options({"sink": "a"}, {}).target.connect_timeout_s == 10
    assert read_options({"sink": "a"}, {}, is_stream=True).target.connect_timeout_s == 30


def test_what_was_read_can_be_pickled() -> None:
    options = read_options({"sink": "a", "columns": "value, key", "metadata": "_offset"}, {})

    assert (options.columns, options.metadata) == (("value", "key"), ("_offset",))
    assert pickle.loads(pickle.dumps(options)) == options


def test_a_stream_of_resends_names_a_subscription_and_has_no_start() -> None:
    def read(**more: str) -> Resending | None:
        return read_options({"sink": "a", "mode": "resend", **more}, {}, is_stream=True).resending

    assert read(subscription="default") == Resending("default", 600.0, before_due=False)
    assert read(subscription="a", resend_lease_s="30", resendBeforeDue="true") == Resending("a", 30.0, before_due=True)
    with pytest.raises(HoldfastSparkError, match="none is named"):
        read()
    for name in ("startingOffsets", "startingTimestamp"):
        with pytest.raises(HoldfastSparkError, match=f"{name} has no meaning with mode resend"):
            read(**{"subscription": "default", name: "1500"})
    for lease_s in ("0.5", "86401", "soon"):
        with pytest.raises(HoldfastSparkError, match="seconds from 1 to 86400"):
            read(subscription="default", resend_lease_s=lease_s)


def test_what_is_for_resends_is_refused_without_them_and_all_of_it_for_a_batch() -> None:
    for name in ("resend_lease_s", "resend_before_due"):
        with pytest.raises(HoldfastSparkError, match=f"{name} has no meaning with mode replay"):
            read_options({"sink": "a", name: "1"}, {}, is_stream=True)
    with pytest.raises(HoldfastSparkError, match="mode is for a stream"):
        read_options({"sink": "a", "mode": "resend"}, {})
    with pytest.raises(HoldfastSparkError, match="one of: replay, resend"):
        read_options({"sink": "a", "mode": "other"}, {}, is_stream=True)
    assert read_options({"sink": "a", "mode": "replay"}, {}, is_stream=True).resending is None
