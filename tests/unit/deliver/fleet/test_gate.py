"""Targets that share a gate send no more at a time than it allows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock

from forebay.deliver import Batch, Delivered, Outcome, TargetClosed, TargetContext
from forebay.deliver.fleet.gate import Gate, GatedTarget
from tests.support.calls.eventually import until
from tests.support.targets.memory_source import INCARNATION, records
from tests.support.targets.recording_target import RecordingTarget

BATCH = Batch("orders", INCARNATION, 0, tuple(records(1)))
CONTEXT = TargetContext("orders", "default", 8)


def send_in_turn(target: GatedTarget) -> Outcome:
    """Send as the deliverer does."""
    with target.send_turn():
        return target.send(BATCH)


def test_sends_of_several_targets_are_bounded_together() -> None:
    lock, inside, most = Lock(), 0, 0
    two_inside, release = Event(), Event()

    def counted(batch: Batch) -> Outcome:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
            if inside == 2:
                two_inside.set()
        assert release.wait(20)
        with lock:
            inside -= 1
        return Delivered()

    gate = Gate(2)
    targets = [GatedTarget(RecordingTarget(counted), gate) for _ in range(3)]
    with ThreadPoolExecutor(6) as threads:
        sent = [threads.submit(send_in_turn, target) for target in targets for _ in range(2)]
        assert two_inside.wait(20)
        release.set()
        outcomes = [one.result(20) for one in sent]

    assert outcomes == [Delivered()] * 6
    assert most == 2


def test_a_place_is_handed_to_who_has_waited_longest() -> None:
    order: list[str] = []
    gate = Gate(1)
    queued = Event()

    def target(name: str) -> GatedTarget:
        def send(batch: Batch) -> Outcome:
            order.append(name)
            if len(order) == 1:
                assert queued.wait(20)
            return Delivered()

        return GatedTarget(RecordingTarget(send), gate)

    def twice(one: GatedTarget) -> None:
        for _ in range(2):
            send_in_turn(one)

    with ThreadPoolExecutor(2) as threads:
        busy = threads.submit(twice, target("busy"))
        until(lambda: order == ["busy"])
        other = threads.submit(send_in_turn, target("other"))
        until(lambda: len(gate._waiting) == 1)
        queued.set()
        busy.result(20)
        other.result(20)

    assert order == ["busy", "other", "busy"]


def test_a_delivery_that_ended_while_it_waited_sends_nothing() -> None:
    gate, inner = Gate(1), RecordingTarget()
    target = GatedTarget(inner, gate)
    with ThreadPoolExecutor(1) as threads:
        with gate:
            sent = threads.submit(send_in_turn, target)
            until(lambda: len(gate._waiting) == 1)
            target.close()
        assert isinstance(sent.exception(20), TargetClosed)

    assert inner.asked == []


def test_a_failed_send_leaves_the_gate() -> None:
    def fails(batch: Batch) -> Outcome:
        raise ZeroDivisionError

    target = GatedTarget(RecordingTarget(fails), Gate(1))
    for _ in range(2):
        try:
            send_in_turn(target)
        except ZeroDivisionError:
            continue
        raise AssertionError("the failure was swallowed")


def test_opening_and_closing_are_those_of_the_target() -> None:
    inner = RecordingTarget()
    target = GatedTarget(inner, Gate(1))

    target.open(CONTEXT)
    target.close()

    assert (inner.context, inner.closed) == (CONTEXT, 1)
