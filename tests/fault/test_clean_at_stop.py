"""Contents of a sink after a clean stop and after a kill, with real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.client import Client, DropReason, Record
from tests.support.calls.eventually import values_of
from tests.support.calls.streams import DeliverCall
from tests.support.campaigns.publishers import SETTINGS
from tests.support.processes.stopping import StoppingLauncher

SINK = "cache"


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_stop_empties_the_sink_durably_and_a_kill_does_not(
    how: str, launcher: StoppingLauncher, listen: str, tmp_path: Path
) -> None:
    """`clean_cache_at_stop`: stop, start: pending 0, the drop counted. Also with something in flight."""
    store = tmp_path / "store"
    with launcher.start(store, listen) as broker, Client(listen, settings=SETTINGS) as client:
        broker.ready()
        client.sinks.create(SINK, clean_cache_at_stop=True, buffer_page_size=2)
        client.sinks.create("kept")
        for number in range(50):
            client.publish(SINK, [Record(b"%d" % number)])
        client.publish("kept", [Record(b"kept")])
        with DeliverCall(listen, SINK, records=10) as call:
            [first, *_] = call.delivered(10)
            call.ack(first.owner_epoch, first.revision, 0, 9)
            call.delivered(5)
            code = broker.terminate() if how == "stop" else broker.kill()

    with launcher.start(store, listen) as again, Client(listen, settings=SETTINGS) as client:
        again.ready()
        stats = client.sinks.stats(SINK)
        [account] = stats.subscriptions[0].partitions
        kept = values_of(client, "kept")
        receipt = client.publish(SINK, [Record(b"next")])[0]

    gone = 40 if how == "stop" else 0
    assert code == (0 if how == "stop" else -9)
    assert (account.acked, account.dropped, account.pending) == (10, gone, 40 - gone)
    assert stats.partitions[0].dropped == ({DropReason.CLEANED_AT_STOP: 40} if gone else {})
    assert stats.identity_ok
    assert (kept, receipt.first_offset) == ([b"kept"], 50)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_two_records_of_five_bytes_are_two_records_after_a_start(
    how: str, launcher: StoppingLauncher, listen: str, tmp_path: Path
) -> None:
    """Append two, close, open: 2 records, 10 bytes."""
    store = tmp_path / "store"
    with launcher.start(store, listen) as broker, Client(listen, settings=SETTINGS) as client:
        broker.ready()
        client.sinks.create(SINK)
        client.publish(SINK, [Record(b"first"), Record(b"secnd")])
        before = client.sinks.stats(SINK)
        broker.terminate() if how == "stop" else broker.kill()

    with launcher.start(store, listen) as again, Client(listen, settings=SETTINGS) as client:
        again.ready()
        after = client.sinks.stats(SINK)
        found = values_of(client, SINK)

    assert (after.records, after.bytes, after.pending()) == (before.records, before.bytes, 2)
    assert (len(found), sum(map(len, found))) == (2, 10)
