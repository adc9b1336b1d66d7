"""Running a deliverer and stopping it."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from random import Random
from threading import Event, Thread

import pytest

from forebay.deliver import (
    Batch,
    BatchLimits,
    Delivered,
    Deliverer,
    DelivererSettings,
    Outcome,
    Reject,
    Retry,
    TargetClosed,
    TargetContext,
)
from tests.support.calls.eventually import until
from tests.support.targets.memory_source import MemoryDelivery, MemorySource, records
from tests.support.targets.recording_target import RecordingTarget

ROOT = Path(__file__).resolve().parents[3]
WAIT_S = 20.0
SETTINGS = DelivererSettings(batch=BatchLimits(records_max=10), concurrency=4, stop_grace_s=WAIT_S)


@contextmanager
def running(deliverer: Deliverer) -> Iterator[SimpleQueue[BaseException | None]]:
    """Run a deliverer in a thread, stop it at the end; yields what it raised, or ``None``."""
    ended = SimpleQueue[BaseException | None]()

    def run() -> None:
        try:
            deliverer.run()
        except (TargetClosed, LookupError, OSError) as error:
            ended.put(error)
        else:
            ended.put(None)

    thread = Thread(target=run, name="deliverer")
    thread.start()
    try:
        yield ended
    finally:
        deliverer.stop()
        thread.join(WAIT_S)
        assert not thread.is_alive()


def test_everything_is_delivered_in_order_in_every_partition() -> None:
    source = MemorySource([records(95), records(7), [], records(40)], per_delivery=16)
    target = RecordingTarget()

    with running(Deliverer(source, "orders", target, settings=SETTINGS)):
        source.all_settled.get(timeout=WAIT_S)

    assert target.taken == {0: list(range(95)), 1: list(range(7)), 3: list(range(40))}
    assert target.closed == 1
    assert target.context == TargetContext("orders", "default", 4)


def test_the_order_holds_and_nothing_is_lost_when_the_target_fails_at_random() -> None:
    random = Random(11)

    def rule(batch: Batch) -> Outcome:
        match random.randrange(4):
            case 0:
                return Retry("HTTP 503", delivered=random.randrange(len(batch)))
            case 1:
                raise ConnectionResetError
            case _:
                return Delivered()

    source = MemorySource([records(200), records(200)], per_delivery=32)
    target = RecordingTarget(rule)

    with running(Deliverer(source, "orders", target, settings=SETTINGS)):
        source.all_settled.get(timeout=WAIT_S)

    assert target.taken == {0: list(range(200)), 1: list(range(200))}


def test_a_target_that_fails_twice_gets_the_record_a_third_time_and_it_is_settled_once() -> None:
    tries = SimpleQueue[int]()

    def rule(batch: Batch) -> Outcome:
        tries.put(batch.first_offset)
        if tries.qsize() < 3:
            raise OSError(5, "Input/output error")
        return Delivered()

    source = MemorySource([records(1)], per_delivery=1)
    target = RecordingTarget(rule)

    with running(Deliverer(source, "orders", target, settings=SETTINGS)):
        source.all_settled.get(timeout=WAIT_S)

    assert target.asked == [(0, 0)] * 3
    assert target.taken == {0: [0]}


def test_a_rejected_record_goes_to_the_dead_letters_and_the_others_arrive() -> None:
    def rule(batch: Batch) -> Outcome:
        fault = batch.partition == 0 and batch.first_offset <= 13 <= batch.last_offset
        return Reject("HTTP 422") if fault else Delivered()

    source = MemorySource([records(40), records(40)], per_delivery=8)
    target = RecordingTarget(rule)

    with running(Deliverer(source, "orders", target, settings=SETTINGS)):
        source.all_settled.get(timeout=WAIT_S)

    assert target.taken == {0: [offset for offset in range(40) if offset != 13], 1: list(range(40))}


def test_stopping_settles_what_is_under_way_and_begins_nothing_more() -> None:
    under_way, go = Event(), Event()

    def rule(_: Batch) -> Outcome:
        under_way.set()
        go.wait(WAIT_S)
        return Delivered()

    source = MemorySource([records(100)], per_delivery=50)
    target = RecordingTarget(rule)
    deliverer = Deliverer(source, "orders", target, settings=SETTINGS)

    with running(deliverer) as ended:
        under_way.wait(WAIT_S)
        deliverer.stop()
        go.set()
        assert ended.get(timeout=WAIT_S) is None

    assert target.taken == {0: list(range(10))}
    assert source.settled_offsets == [set(range(10))]
    assert target.closed == 1


def test_stopping_does_not_wait_longer_than_its_grace() -> None:
    under_way, go = Event(), Event()

    def rule(_: Batch) -> Outcome:
        under_way.set()
        go.wait(WAIT_S)
        return Delivered()

    source = MemorySource([records(1)], per_delivery=1)
    deliverer = Deliverer(source, "orders", RecordingTarget(rule), settings=DelivererSettings(stop_grace_s=0.05))

    with running(deliverer) as ended:
        under_way.wait(WAIT_S)
        assert deliverer.stop(wait_s=WAIT_S)
        assert ended.get(timeout=WAIT_S) is None
        go.set()


def test_a_deliverer_stopped_before_it_runs_ends_at_once() -> None:
    source = MemorySource([records(1)], per_delivery=1)
    deliverer = Deliverer(source, "orders", RecordingTarget(), settings=SETTINGS)

    deliverer.stop()
    deliverer.run()

    assert deliverer.stop(wait_s=0.001)


def test_a_target_that_is_gone_ends_the_run_with_its_error() -> None:
    def rule(_: Batch) -> Outcome:
        raise TargetClosed("nobody reads the output any more")

    source = MemorySource([records(3)], per_delivery=1)
    target = RecordingTarget(rule)

    with running(Deliverer(source, "orders", target, settings=SETTINGS)) as ended:
        assert isinstance(ended.get(timeout=WAIT_S), TargetClosed)

    assert source.settled_offsets == [set()]
    assert target.closed == 1


def test_an_error_of_the_subscription_ends_the_run() -> None:
    class Broken(MemorySource):
        def __iter__(self) -> Iterator[MemoryDelivery]:
            raise LookupError("no such sink")

    target = RecordingTarget()

    with running(Deliverer(Broken([], per_delivery=1), "orders", target, settings=SETTINGS)) as ended:
        assert isinstance(ended.get(timeout=WAIT_S), LookupError)

    assert target.closed == 1


def test_an_error_of_open_ends_the_run_before_any_record_is_read() -> None:
    class Unopened(RecordingTarget):
        def open(self, context: TargetContext) -> BatchLimits | None:
            raise OSError("no such folder")

    source = MemorySource([records(1)], per_delivery=1)

    with running(Deliverer(source, "orders", Unopened(), settings=SETTINGS)) as ended:
        assert isinstance(ended.get(timeout=WAIT_S), OSError)

    assert source.opened_with == {}


def test_the_tighter_limits_of_the_target_count() -> None:
    source = MemorySource([records(6)], per_delivery=6)
    target = RecordingTarget(limits=BatchLimits(records_max=2))

    with running(Deliverer(source, "orders", target, settings=SETTINGS)):
        source.all_settled.get(timeout=WAIT_S)

    assert target.asked == [(0, 1), (2, 3), (4, 5)]


@pytest.mark.parametrize(
    ("records_max", "bytes_max", "of_target", "asked"),
    [
        (None, 1 << 20, BatchLimits(1_000, 8 << 20), 1),
        (600, None, BatchLimits(1_000, 8 << 20), 1),
        (None, 1 << 20, None, 2),
        (400, None, None, 2),
        (None, None, BatchLimits(1_000, 8 << 20), 1),
    ],
)
def test_a_limit_that_is_not_given_is_that_of_the_target_or_the_usual_one(
    records_max: int | None, bytes_max: int | None, of_target: BatchLimits | None, asked: int
) -> None:
    source = MemorySource([records(600)], per_delivery=600)
    target = RecordingTarget(limits=of_target)
    settings = replace(SETTINGS, batch=BatchLimits.given(records_max, bytes_max))

    with running(Deliverer(source, "orders", target, settings=settings)):
        source.all_settled.get(timeout=WAIT_S)

    assert len(target.asked) == asked


@pytest.mark.parametrize(
    ("resend_batch", "of_second", "asked"),
    [(None, None, 10), (BatchLimits(4), None, 4), (BatchLimits.of_target(), BatchLimits(7), 7)],
)
def test_redelivered_records_go_to_the_second_target_in_batches_of_its_limits(
    resend_batch: BatchLimits | None, of_second: BatchLimits | None, asked: int
) -> None:
    source = MemorySource([[]], per_delivery=1)
    first, second = RecordingTarget(), RecordingTarget(limits=of_second)
    settings = replace(SETTINGS, resend_batch=resend_batch)
    sent, again = MemoryDelivery(records(28)), MemoryDelivery(records(28), partition=1, resend=True)
    source.put(sent)
    source.put(again)

    with running(Deliverer(source, "orders", first, resend_to=second, settings=settings)):
        until(lambda: [sum(last - first + 1 for first, last in one.acked) for one in (sent, again)] == [28, 28])

    assert (first.asked[0], second.asked[0]) == ((0, 9), (0, asked - 1))


def test_a_delivery_that_waits_for_the_broker_is_extended_meanwhile() -> None:
    source = MemorySource([[]], per_delivery=1)

    def confirms() -> bool:
        before = delivery.extended
        until(lambda: delivery.extended > before)
        return True

    delivery = MemoryDelivery(records(2), confirms=confirms)
    source.put(delivery)
    target = RecordingTarget(lambda batch: Reject("HTTP 422") if batch.first_offset == 0 else Delivered())

    with running(Deliverer(source, "orders", target, settings=replace(SETTINGS, batch=BatchLimits(1)))):
        until(lambda: bool(delivery.acked))

    assert delivery.acked == [(1, 1)]


def test_a_target_may_ask_for_a_delay_of_hours() -> None:
    source = MemorySource([[]], per_delivery=1)
    delivery = MemoryDelivery(records(1))
    source.put(delivery)

    with running(Deliverer(source, "orders", RecordingTarget(lambda _: Retry("HTTP 503", delay_s=7_200.0)))):
        until(lambda: bool(delivery.given_back))

    assert delivery.given_back == [(0, 7_200.0, "HTTP 503")]


def test_the_subscription_is_opened_as_the_settings_say() -> None:
    source = MemorySource([records(1)], per_delivery=1)
    settings = DelivererSettings(subscription="copy", consumer_id="me")

    with running(Deliverer(source, "orders", RecordingTarget(), settings=settings)):
        source.all_settled.get(timeout=WAIT_S)

    assert source.opened_with == {"sink": "orders", "subscription": "copy", "consumer_id": "me"}


def test_the_limits_of_a_batch_raise_what_is_in_flight() -> None:
    source = MemorySource([records(1)], per_delivery=1)
    settings = DelivererSettings(batch=BatchLimits(10_000, 32 << 20), concurrency=4)

    with running(Deliverer(source, "orders", RecordingTarget(), settings=settings)):
        source.all_settled.get(timeout=WAIT_S)

    assert source.credit == (80_000, 64 << 20)


def test_a_signal_handler_may_stop_it() -> None:
    program = textwrap.dedent("""
        import os, signal
        from forebay.deliver import Deliverer, Delivered
        from tests.support.targets.memory_source import MemorySource, records
        from tests.support.targets.recording_target import RecordingTarget

        def rule(batch):
            os.kill(os.getpid(), signal.SIGTERM)
            return Delivered()

        deliverer = Deliverer(MemorySource([records(2)], per_delivery=1), "orders", RecordingTarget(rule))
        signal.signal(signal.SIGTERM, lambda *_: deliverer.stop())
        deliverer.run()
        print("ended")
    """)

    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )

    assert run.stdout == "ended\n"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("concurrency", 0),
        ("concurrency", 257),
        ("credit_records", 0),
        ("credit_bytes", 0),
        ("retry_delay_max_s", 86_401.0),
        ("retry_delay_max_s", float("nan")),
        ("stop_grace_s", -1.0),
    ],
)
def test_a_setting_that_could_not_work_is_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"^{name} = "):
        DelivererSettings(**{name: value})  # type: ignore[arg-type]  # the name is a parameter


def test_a_second_target_is_opened_and_closed_too() -> None:
    first, second = RecordingTarget(), RecordingTarget()
    source = MemorySource([records(2)], per_delivery=2)

    with running(Deliverer(source, "orders", first, resend_to=second, settings=SETTINGS)):
        source.all_settled.get(timeout=WAIT_S)

    assert second.context == first.context
    assert (first.closed, second.closed) == (1, 1)
