"""Several deliveries are settled as one, each with its own offsets."""

from __future__ import annotations

import pytest
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from forebay.client import DeadlineExceeded
from forebay.deliver.batches.joined_delivery import LINKS_MAX, JoinedDelivery
from tests.support.targets.memory_source import MemoryDelivery, records


def parts(*, relaxed: bool = False) -> list[MemoryDelivery]:
    """Three deliveries of four records each."""
    return [MemoryDelivery(records(4, first=first), relaxed=relaxed) for first in (0, 4, 8)]


def test_it_has_the_records_and_ranges_of_its_parts() -> None:
    made = parts()
    made[2].void_from = 10
    joined = JoinedDelivery(made)

    assert (joined.first_offset, joined.last_offset, joined.stored_bytes) == (0, 11, 48)
    assert [one.offset for run in joined.runs() for one in run] == list(range(10))
    assert [offset for offset, _ in joined.valid_ranges] == list(range(10))
    assert (joined.partition, joined.incarnation, joined.resend, joined.gap) == (0, made[0].incarnation, False, None)


def test_an_ack_is_given_to_each_part_with_its_own_offsets() -> None:
    made = parts()

    JoinedDelivery(made).ack(2, 9)
    JoinedDelivery(made).ack(10, 11)

    assert [one.acked for one in made] == [[(2, 3)], [(4, 7)], [(8, 9), (10, 11)]]


def test_a_nack_rejects_in_strict_order_the_part_with_the_record_only() -> None:
    made = parts()

    JoinedDelivery(made).nack_from(5, delay_s=2.0, reason="away")

    assert [one.given_back for one in made] == [[], [(5, 2.0, "away")], []]


def test_a_nack_rejects_in_relaxed_order_each_part_up_to_the_last_record() -> None:
    made = parts(relaxed=True)

    JoinedDelivery(made).nack_from(5, last=9, reason="away")

    assert [one.given_back for one in made] == [[], [(5, None, "away")], [(8, None, "away")]]
    assert [one.given_back_last for one in made] == [[], [7], [9]]


def test_dead_letters_go_to_each_part_and_only_a_late_answer_is_waited_for_again() -> None:
    made = parts()
    is_late = [True]
    made[1].confirms = lambda: not is_late[0]
    joined = JoinedDelivery(made)

    with pytest.raises(DeadlineExceeded):
        joined.dead_letter("bad", offset=3, last=5, wait=True)
    is_late[0] = False
    made[0].takes_dead_letters = False  # nothing of it is unanswered: it is not asked again
    results = joined.dead_letter("bad", offset=3, last=5, wait=True)

    assert [result.outcome for result in results] == ["OK", "OK"]
    assert [[offset for offset, _ in one.dead] for one in made] == [[3], [4, 5], []]
    assert len(joined.dead_letter("bad", offset=11, wait=True)) == 1
    assert [offset for offset, _ in made[2].dead] == [11]


def test_all_parts_are_extended() -> None:
    made = parts()

    JoinedDelivery(made).extend()

    assert [one.extended for one in made] == [1, 1, 1]


def context(span_id: int, *, sampled: bool) -> Context:
    flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
    return set_span_in_context(NonRecordingSpan(SpanContext(7, span_id, is_remote=False, trace_flags=flags)))


def test_its_trace_is_that_of_the_first_part_that_is_sampled() -> None:
    made = parts()
    assert JoinedDelivery(made).trace_context is None

    first, second, third = (context(number, sampled=number > 1) for number in (1, 2, 3))
    made[0].trace_context, made[1].trace_context, made[2].trace_context = first, second, third

    assert JoinedDelivery(made).trace_context is second
    assert JoinedDelivery(made[:1]).trace_context is first
    assert JoinedDelivery(made).trace_contexts == [first, second, third]
    assert len(JoinedDelivery([made[0]] * (LINKS_MAX + 1)).trace_contexts) == LINKS_MAX
