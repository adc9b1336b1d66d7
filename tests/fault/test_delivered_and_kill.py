"""Deliveries without an answer, an end of the broker, and the `resend` flag of the redeliveries."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.client import Client, Record
from tests.support.calls.streams import DeliverCall, offsets
from tests.support.campaigns.publishers import SETTINGS
from tests.support.processes.stopping import StoppingLauncher

SINK = "orders"


def deliver(listen: str, records: int) -> list[tuple[int, bool]]:
    """(offset, `resend`) of the next records, none of which is answered."""
    with DeliverCall(listen, SINK, records=records) as call:
        return [(offset, one.resend) for one in call.delivered(records) for offset in offsets(one)]


def fill(listen: str, records: int) -> None:
    with Client(listen, settings=SETTINGS) as client:
        client.sinks.create(SINK, exist_ok=True, buffer_page_size=1)
        for number in range(records):
            client.publish(SINK, [Record(b"%d" % number)])


@pytest.mark.slow
@pytest.mark.parametrize("end", ["kill", "stop"])
def test_records_delivered_before_a_kill_or_stop_are_marked_as_resends_and_the_others_are_not(
    end: str, launcher: StoppingLauncher, listen: str, in_memory: Path
) -> None:
    with launcher.start(in_memory / "store", listen) as broker:
        broker.ready()
        fill(listen, 6)
        first = deliver(listen, 2)
        assert broker.kill() if end == "kill" else broker.terminate() == 0
    with launcher.start(in_memory / "store", listen) as broker:
        broker.ready()
        second = deliver(listen, 4)
        broker.kill()
    with launcher.start(in_memory / "store", listen) as broker:
        broker.ready()
        third = deliver(listen, 6)

    assert first == [(0, False), (1, False)]
    assert second == [(0, True), (1, True), (2, False), (3, False)]
    assert third == [(0, True), (1, True), (2, True), (3, True), (4, False), (5, False)]


@pytest.mark.slow
def test_all_stored_records_count_as_delivered_if_the_file_of_delivery_marks_is_missing(
    launcher: StoppingLauncher, listen: str, in_memory: Path
) -> None:
    """As after a power loss: the machine has another boot, and the file is not believed."""
    with launcher.start(in_memory / "store", listen) as broker:
        broker.ready()
        fill(listen, 3)
        deliver(listen, 1)
        broker.kill()
    (in_memory / "store" / "delivered").unlink()
    with launcher.start(in_memory / "store", listen) as broker:
        broker.ready()
        fill(listen, 1)
        found = deliver(listen, 4)

    assert found == [(0, True), (1, True), (2, True), (3, False)]
