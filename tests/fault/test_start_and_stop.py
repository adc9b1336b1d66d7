"""A broker process is asked to stop while it works: what is under way ends well, and the next one has all of it."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import Future
from itertools import count
from pathlib import Path

import pytest

from forebay.client import BrokerDraining, BrokerUnavailable, Client, ClientSettings, Receipt, Record, RetryPolicy
from tests.support.calls.eventually import values_of
from tests.support.calls.streams import DeliverCall, PublishCall
from tests.support.campaigns.publishers import SETTINGS
from tests.support.processes.stopping import StoppingLauncher, let_go, wait_held
from tests.support.processes.stops import Stop

SINK = "orders"
ONCE = ClientSettings(call_timeout_s=10.0, retry=RetryPolicy(tries_max=1), reattach_timeout_s=0.0)
STOPS_S = 5.0
"""Half of what a stop grants to calls that are under way: nothing has to be waited out."""


def until_draining(client: Client) -> None:
    """Return when the broker has taken notice of the signal."""
    until = time.monotonic() + STOPS_S
    while client.info().state != "DRAINING":
        assert time.monotonic() < until, "the broker did not begin to stop"


@pytest.mark.slow
@pytest.mark.parametrize("signals", [1, 2], ids=["once", "twice"])
def test_an_append_after_a_sigterm_is_refused_and_one_before_it_becomes_durable(
    signals: int, launcher: StoppingLauncher, listen: str, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    with launcher.start_to(Stop("sync", "before", kind="page", hold=True), store, listen) as broker:
        broker.ready()
        with Client(listen, settings=ONCE) as client:
            client.sinks.create(SINK)
            with PublishCall(listen, SINK, "writer") as call, PublishCall(listen, SINK, "other") as other:
                call.send(0, [b"waits for its sync"])
                wait_held(store)
                for _ in range(signals):
                    os.kill(broker.pid, signal.SIGTERM)
                    until_draining(client)
                with pytest.raises(BrokerDraining) as by_call:
                    client.publish(SINK, [Record(b"too late")])
                other.send(0, [b"too late"])
                with pytest.raises(BrokerDraining) as by_stream:
                    other.answer()
                with pytest.raises(BrokerDraining) as by_open, PublishCall(listen, SINK, "third"):
                    pass
                let_go(store)
                receipt = call.answer()
                code = broker.wait()

    with launcher.start(store, listen) as again:
        again.ready()
        with Client(listen, settings=SETTINGS) as client:
            found = values_of(client, SINK)

    assert [caught.value.reason for caught in (by_call, by_stream, by_open)] == ["DRAINING"] * 3
    assert all((caught.value.retry_after_s or 0) > 0 for caught in (by_call, by_stream, by_open))
    assert (receipt.first_offset, code) == (0, 0)
    assert found == [b"waits for its sync"]


@pytest.mark.slow
def test_every_kind_of_stream_ends_at_a_sigterm_without_being_waited_out(
    launcher: StoppingLauncher, listen: str, tmp_path: Path
) -> None:
    with launcher.start(tmp_path / "store", listen) as broker:
        broker.ready()
        with Client(listen, settings=ONCE) as client:
            client.sinks.create(SINK)
            client.publish(SINK, [Record(b"value")])
            following = client.replay(SINK, partition=0, follow=True)
            watching = client.sinks.watch(SINK, interval_s=60.0)
            next(following), next(watching)
            with PublishCall(listen, SINK, "writer") as publish, DeliverCall(listen, SINK) as deliver:
                deliver.delivered(1)
                began = time.monotonic()
                code = broker.terminate()
                took_s = time.monotonic() - began
                with pytest.raises(BrokerUnavailable) as by_publish:
                    publish.answer()
                with pytest.raises(BrokerUnavailable) as by_deliver:
                    deliver.next("delivery")
            with pytest.raises(BrokerUnavailable):
                next(following)
            with pytest.raises(BrokerUnavailable):
                next(watching)

    assert code == 0
    assert took_s < STOPS_S
    assert [by_publish.value.reason, by_deliver.value.reason] == ["DRAINING", "DRAINING"]


@pytest.mark.slow
def test_a_publisher_continues_through_stops_and_every_record_is_there_once_and_in_order(
    launcher: StoppingLauncher, listen: str, tmp_path: Path
) -> None:
    store, numbers = tmp_path / "store", count()
    sent: list[tuple[bytes, Future[Receipt]]] = []
    broker = launcher.start(store, listen)
    broker.ready()
    with Client(listen, settings=SETTINGS) as client:
        client.sinks.create(SINK)
        with client.publisher(SINK, linger_ms=0.0) as publisher:
            for _ in range(4):
                for number, _ in zip(numbers, range(300), strict=False):
                    value = b"%d " % number * 500
                    sent.append((value, publisher.send(value)))
                sent[-200][1].result(30)
                code = broker.terminate()
                acknowledged = [future for _, future in sent if future.done()]
                broker = launcher.start(store, listen)
                broker.ready()
                stats = client.sinks.stats(SINK)
                assert code == 0
                assert stats.partitions[0].next_offset >= len(acknowledged)
            publisher.flush(30)
        found = values_of(client, SINK)
    receipts = [future.result() for _, future in sent]
    broker.kill()

    assert found == [value for value, _ in sent]
    assert [receipt.first_offset for receipt in receipts] == list(range(len(sent)))
