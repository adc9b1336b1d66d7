"""The broker is killed before a drop is durable: no consumer may have received its gap."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import pytest

from forebay.client import BrokerUnavailable, Client, DropReason, Gap, Overflow, Record
from forebay.v1.buffer_service_pb2 import Credit, DeliverRequest
from tests.support.calls.streams import DeliverCall, PublishCall
from tests.support.campaigns.publishers import SETTINGS
from tests.support.processes.stopping import StoppingLauncher, let_go, wait_held
from tests.support.processes.stops import Stop

SINK = "orders"
TURNS = 50
"""Calls by whose answers everything else that the broker could do at once has been done."""


def replayed(client: Client) -> list[bytes | tuple[int, int, DropReason]]:
    """Records and gaps of a replay from the beginning."""
    found: list[bytes | tuple[int, int, DropReason]] = []
    for one in client.replay(SINK, partition=0, start=0, end=3, on_gap="yield"):
        found.append((one.first_offset, one.last_offset, one.reason) if isinstance(one, Gap) else one.value)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("action", ["write", "sync"])
def test_a_gap_that_a_kill_can_undo_was_never_reported(
    action: Literal["write", "sync"], launcher: StoppingLauncher, listen: str, in_memory: Path
) -> None:
    store = in_memory / "store"
    broker = launcher.start_to(Stop(action, "before", 3, kind="page", hold=True), store, listen)
    broker.ready()
    with Client(listen, settings=SETTINGS) as client:
        client.sinks.create(SINK, overflow=Overflow.DROP_OLDEST, max_disk_cache=2)
        with (
            PublishCall(listen, SINK, "writer") as publish,
            DeliverCall(listen, SINK, records=1) as deliver,
            ThreadPoolExecutor(1) as worker,
        ):
            publish.publish(0, [b"0"])
            deliver.delivered(1)  # it is in flight, so the next one is what goes
            publish.publish(1, [b"1"])
            publish.send(2, [b"2"])
            wait_held(store)
            deliver.put(DeliverRequest(credit=Credit(records=100, bytes=1 << 20)))
            told = worker.submit(deliver.next, "gap")  # read now: what was not read is lost with the connection
            for _ in range(TURNS):
                client.info()
            broker.kill()
            with pytest.raises(BrokerUnavailable):
                told.result(20)

    with launcher.start(store, listen) as again:
        again.ready()
        with Client(listen, settings=SETTINGS) as client:
            found = replayed(client)
            balances = client.sinks.stats(SINK).identity_ok

    assert found == ([b"0", b"1"] if action == "write" else [b"0", (1, 1, DropReason.OVERFLOW), b"2"])
    assert balances


@pytest.mark.slow
def test_a_replay_waits_for_a_drop_to_be_durable_before_it_reports_the_gap(
    launcher: StoppingLauncher, listen: str, in_memory: Path
) -> None:
    store = in_memory / "store"
    with launcher.start_to(Stop("sync", "before", 3, kind="page", hold=True), store, listen) as broker:
        broker.ready()
        with Client(listen, settings=SETTINGS) as client, ThreadPoolExecutor(1) as worker:
            client.sinks.create(SINK, overflow=Overflow.DROP_OLDEST, max_disk_cache=2)
            for value in (b"0", b"1"):
                client.publish(SINK, [Record(value)])
            with PublishCall(listen, SINK, "writer") as publish:
                publish.send(0, [b"2"])
                wait_held(store)
                replay = worker.submit(replayed, client)
                for _ in range(TURNS):
                    client.info()
                early = replay.done()
                let_go(store)
                publish.answer()
                found = replay.result(20)

    assert not early
    assert found[:2] == [(0, 0, DropReason.OVERFLOW), b"1"]
