"""Deliveries as users see them."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import get_current_span

from forebay.client import Delivery, DropReason, Encoding, Gap, PagePart, StoredPage
from forebay.client.aio import Delivery as AsyncioDelivery
from forebay.client.consume.in_flight import InFlight
from forebay.client.publish.pages import encode_columns
from forebay.client.replay.row_columns import RowColumns
from forebay.page.columns import Columns
from tests.support.targets.rows_batch import stored_page

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NAMES = {
    "ack",
    "ack_until",
    "dead_letter",
    "drop",
    "durability",
    "extend",
    "first_offset",
    "gap",
    "incarnation",
    "last_offset",
    "nack",
    "nack_from",
    "ordering",
    "pages",
    "partition",
    "ranges",
    "relaxed",
    "resend",
    "runs",
    "stale",
    "stored_bytes",
    "trace_context",
    "traceparents",
    "valid_ranges",
    "values",
    "with_unreadable",
}


class NoSettler:
    """Takes no answers."""

    clock = staticmethod(time.monotonic)

    def touch(self, delivery: InFlight) -> float:
        """Do nothing."""
        return math.inf

    def settle(self, *_: Any, **__: Any) -> Any:
        """Do nothing."""
        return []


class Busy(NoSettler):
    """Notes when the deadline was checked, at a clock that each record advances."""

    def __init__(self) -> None:
        self.now = 0.0
        self.checked: list[float] = []

    def clock(self) -> float:
        """Return the time."""
        return self.now

    def touch(self, delivery: InFlight) -> float:
        """Note the time; the next check is due 10 s later."""
        self.checked.append(self.now)
        return self.now + 10.0


def in_flight(*ranges: tuple[int, int]) -> InFlight:
    body = encode_columns([b"%d" % offset for offset in range(10)]).body
    part = PagePart(0, NOON, "")
    pages = tuple(StoredPage(0, 0, 10, Encoding.RECORDS, body, (part,), first, last) for first, last in ranges)
    return InFlight(partition=0, incarnation="i", pages=pages)


def test_users_of_both_clients_see_only_what_they_use() -> None:
    for delivery in (Delivery(in_flight((0, 9)), NoSettler()), AsyncioDelivery(in_flight((0, 9)), NoSettler())):
        assert {name for name in dir(delivery) if not name.startswith("_")} == NAMES


def test_void_records_are_not_valid_not_counted_and_not_read() -> None:
    state = in_flight((0, 3), (6, 9))
    delivery = Delivery(state, NoSettler())
    assert delivery.valid_ranges == delivery.ranges == ((0, 3), (6, 9))

    state.void(7)

    assert delivery.valid_ranges == ((0, 3), (6, 6))
    assert delivery.ranges == ((0, 3), (6, 9))
    assert len(delivery) == 5
    assert [record.offset for record in delivery] == [0, 1, 2, 3, 6]
    assert delivery.values() == [b"0", b"1", b"2", b"3", b"6"]


def test_an_untaken_delivery_is_cut_below_an_offset() -> None:
    state = in_flight((0, 3), (6, 9))

    below = state.below(7)

    assert below is not None
    assert below.ranges == ((0, 3), (6, 6))
    assert state.below(0) is None
    assert state.below(10) is state


def test_the_trace_context_names_the_span_of_the_processing_while_it_runs() -> None:
    state = in_flight((0, 9))
    delivery = Delivery(state, NoSettler())
    assert delivery.trace_context is None

    state.span = TracerProvider().get_tracer("test").start_span("process orders")

    assert get_current_span(delivery.trace_context) is state.span
    state.span.end()


def test_a_gap_has_offsets_and_no_records() -> None:
    missing = Gap(0, 3, 7, DropReason.OVERFLOW, NOON)

    delivery = Delivery(InFlight(partition=0, incarnation="i", gap=missing), NoSettler())

    assert (delivery.first_offset, delivery.last_offset, delivery.stored_bytes) == (3, 7, 0)
    assert (len(delivery), list(delivery), delivery.valid_ranges) == (0, [], ())
    assert repr(delivery) == "<Gap partition=0 offsets=3-7>"


def test_the_deadline_is_checked_at_the_first_record_after_a_check_is_due_however_few_there_are() -> None:
    settler = Busy()

    for record in Delivery(in_flight((0, 9)), settler):
        settler.now += 4.0 if record.offset != 7 else 100.0

    assert settler.checked == [0.0, 12.0, 24.0, 128.0]


def test_iteration_ends_at_a_record_that_becomes_void_meanwhile() -> None:
    flying = in_flight((0, 9))
    seen = []

    for record in Delivery(flying, NoSettler()):
        seen.append(record.offset)
        if record.offset == 3:
            flying.void(5)

    assert seen == [0, 1, 2, 3, 4]


def test_runs_have_the_valid_records_of_each_page_and_check_the_deadline_at_each() -> None:
    flying = in_flight((0, 3), (6, 9))
    settler = Busy()
    found = Delivery(flying, settler).runs()

    first = next(found)
    flying.void(8)
    rest = list(found)

    assert list(first) == list(Delivery(in_flight((0, 3)), settler))
    assert [list(run.values) for run in (first, *rest)] == [[b"0", b"1", b"2", b"3"], [b"6", b"7"]]
    assert [run.first_offset for run in (first, *rest)] == [0, 6]
    assert len(settler.checked) == 3
    assert list(Delivery(flying, settler).runs())[1].values == [b"6", b"7"]


def test_no_run_begins_after_the_void_ones() -> None:
    flying = in_flight((0, 3), (6, 9))
    flying.void(6)

    assert [run.first_offset for run in Delivery(flying, NoSettler()).runs()] == [0]


def test_a_part_of_a_page_of_rows_has_its_own_values_and_a_whole_page_makes_them_later() -> None:
    whole = stored_page(pa.record_batch({"id": list(range(100))}))
    part = replace(whole, first_offset=10, last_offset=12)

    [run] = Delivery(InFlight(partition=3, incarnation="i", pages=(part,)), NoSettler()).runs()
    [lazy] = Delivery(InFlight(partition=3, incarnation="i", pages=(whole,)), NoSettler()).runs()

    assert isinstance(run._columns, Columns), "it would hold the rows of the whole page"
    assert run.values == [b'{"id":10}', b'{"id":11}', b'{"id":12}']
    assert isinstance(lazy._columns, RowColumns)
    assert lazy.part(10, 13).values == run.values
