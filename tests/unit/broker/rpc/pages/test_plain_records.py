"""Single records out of a page of runs."""

from __future__ import annotations

from forebay.broker.core.partition.ranges import Range
from forebay.broker.rpc.pages.plain_records import records_at
from forebay.page.format import NO_KEY, NO_TIME
from forebay.v1 import record_pb2

FIRST = record_pb2.RecordRun(
    value_lengths=[1, 2],
    values=b"abb",
    key_lengths=[NO_KEY, 0],
    event_times_us=[5, NO_TIME],
    headers=[{"entries": [{"key": "k", "value": b"v"}] * 3}, {}],
)
SECOND = record_pb2.RecordRun(value_lengths=[0, 1], values=b"d", key_lengths=[1, 2], keys=b"xyy")
DATA = record_pb2.RecordPage(runs=[FIRST, SECOND]).SerializeToString()


def test_the_wanted_records_of_all_runs_come_by_offset() -> None:
    found = [(offset, record.value, record.key) for offset, record, _ in records_at(DATA, 10, [Range(11, 13)])]

    assert found == [(11, b"bb", b""), (12, b"", b"x")]


def test_ranges_may_lie_apart_and_reach_beyond_the_page() -> None:
    found = [offset for offset, _, _ in records_at(DATA, 10, [Range(0, 11), Range(13, 99)])]

    assert found == [10, 13]


def test_a_record_has_its_time_and_its_headers() -> None:
    first, second, *_ = [record for _, record, _ in records_at(DATA, 10, [Range(10, 14)])]

    assert (first.event_time_us, first.headers, first.key) == (5, (("k", b"v"),) * 3, None)
    assert (second.event_time_us, second.headers) == (None, ())


def test_headers_beyond_a_bound_are_left_out_and_counted() -> None:
    [(_, record, omitted)] = records_at(DATA, 10, [Range(10, 11)], headers_max=2)

    assert (len(record.headers), omitted) == (2, 1)
