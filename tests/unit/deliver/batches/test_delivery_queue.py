"""The first deliveries of a queue are a batch as far as they follow each other and fit."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from forebay.deliver import BatchLimits
from forebay.deliver.batches.delivery_queue import DeliveryQueue
from forebay.deliver.source import SourceDelivery
from tests.support.targets.memory_source import MemoryDelivery, records


def queue_of(*deliveries: SourceDelivery, limits: BatchLimits) -> DeliveryQueue:
    queue = DeliveryQueue(lambda _: limits)
    for number, one in enumerate(deliveries):
        queue.append(one, float(number))
    return queue


def spans(queue: DeliveryQueue) -> list[tuple[int, int]]:
    found = []
    while queue:
        one = queue.take()
        found.append((one.first_offset, one.last_offset))
    return found


def consecutive(counts: list[int]) -> list[MemoryDelivery]:
    firsts = [sum(counts[:number]) for number in range(len(counts))]
    return [MemoryDelivery(records(count, first=first)) for first, count in zip(firsts, counts, strict=True)]


@given(st.lists(st.integers(1, 5), min_size=1), st.integers(1, 8), st.integers(1, 40))
def test_consecutive_deliveries_are_joined_up_to_the_limits_and_none_is_left_out(
    counts: list[int], records_max: int, bytes_max: int
) -> None:
    queue = queue_of(*consecutive(counts), limits=BatchLimits(records_max, bytes_max))

    found = spans(queue)

    assert [offset for first, last in found for offset in range(first, last + 1)] == list(range(sum(counts)))
    ends = {sum(counts[:number]) - 1 for number in range(1, len(counts) + 1)}
    for (first, last), following in zip(found, [*found[1:], None], strict=True):
        size = last - first + 1
        is_single = last in ends and (first == 0 or first - 1 in ends) and size in counts
        assert is_single or (size <= records_max and 4 * size <= bytes_max)
        if following is not None:  # the next delivery would not have fitted
            grown = next(end for end in sorted(ends) if end > last) - first + 1
            assert grown > records_max or 4 * grown > bytes_max


def test_a_gap_a_hole_a_redelivery_and_a_recreated_sink_end_a_batch() -> None:
    first, second = MemoryDelivery(records(2)), MemoryDelivery(records(2, first=2))
    gap = MemoryDelivery([], gap="a gap")
    others = [
        MemoryDelivery(records(2, first=3)),
        replace(second, resend=True),
        replace(second, incarnation="another"),
        gap,
    ]

    for other in others:
        queue = queue_of(first, other, limits=BatchLimits())
        assert (queue.is_full, queue.take(), queue.take()) == (True, first, other)
    assert queue_of(gap, first, limits=BatchLimits()).take() is gap
    assert spans(queue_of(first, second, limits=BatchLimits())) == [(0, 3)]


def test_a_batch_is_full_at_its_limits_only() -> None:
    one, other = consecutive([2, 2])

    assert not queue_of(one, limits=BatchLimits(4)).is_full
    assert queue_of(one, other, limits=BatchLimits(4)).is_full
    assert queue_of(one, other, limits=BatchLimits(100, 16)).is_full
    queue = queue_of(one, other, limits=BatchLimits(2))
    assert queue.is_full
    queue.take()
    assert (len(queue), list(queue), queue.is_full) == (1, [other], True)


def test_a_batch_is_due_after_the_wait_of_its_first_delivery() -> None:
    deliveries = consecutive([1, 1, 1])

    assert queue_of(*deliveries, limits=BatchLimits()).due_at_s == 0.0
    queue = queue_of(*deliveries, limits=BatchLimits(2, wait_s=5.0))
    assert queue.due_at_s == 5.0
    queue.take()
    assert queue.due_at_s == 7.0


def test_a_redelivered_batch_does_not_wait_for_records_that_the_broker_holds_back() -> None:
    queue = queue_of(MemoryDelivery(records(2), resend=True), limits=BatchLimits(10, wait_s=5.0))

    assert queue.due_at_s == 0.0
