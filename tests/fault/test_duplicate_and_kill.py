"""A duplicate arrives while its original waits for the sync, and the broker is killed there."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from forebay.client import BrokerUnavailable, Client, WriterFenced
from tests.support.calls.eventually import values_of
from tests.support.calls.streams import PublishCall
from tests.support.campaigns.publishers import SETTINGS
from tests.support.processes.stopping import StoppingLauncher, let_go, wait_held
from tests.support.processes.stops import Action, Stop

SINK = "orders"


def refused(call: PublishCall) -> Exception:
    """Return the next answer of a call, which must not be a receipt."""
    with pytest.raises((BrokerUnavailable, WriterFenced)) as caught:
        call.answer()
    return caught.value


@pytest.mark.slow
@pytest.mark.parametrize("same_stream", [True, False], ids=["on the same stream", "on a resumed stream"])
@pytest.mark.parametrize(("action", "stored"), [("write", False), ("sync", True)])
def test_a_duplicate_of_a_page_that_waits_for_its_sync_is_not_acknowledged_by_a_kill(
    action: Action, stored: bool, same_stream: bool, launcher: StoppingLauncher, listen: str, in_memory: Path
) -> None:
    """A duplicate arrives while its original waits for the sync, kill: neither acknowledged, or there."""
    stop = Stop(action, "before", kind="page", hold=True)
    broker = launcher.start_to(stop, in_memory / "store", listen)
    with Client(broker.ready(), settings=SETTINGS) as client:
        client.sinks.create(SINK)
    with PublishCall(listen, SINK, "writer") as first:
        epoch = first.opened.writer_epoch
        first.send(0, [b"page 0"])
        wait_held(in_memory / "store")
        if same_stream:
            first.send(0, [b"page 0"])
            broker.kill()
            answers = [refused(first)]
        else:
            with PublishCall(listen, SINK, "writer", epoch=epoch) as second:
                second.send(0, [b"page 0"])
                answers = [refused(first)]
                broker.kill()
                answers.append(refused(second))
    assert isinstance(answers[-1], BrokerUnavailable)

    with launcher.start(in_memory / "store", listen) as again:
        again.ready()
        with Client(listen, settings=SETTINGS) as client:
            before = values_of(client, SINK)
            with PublishCall(listen, SINK, "writer", epoch=epoch) as third:
                expected = dict(third.opened.next_sequences)
                receipt = third.publish(0, [b"page 0"])
            after = values_of(client, SINK)

    assert before == ([b"page 0"] if stored else [])
    assert expected == ({0: 1} if stored else {})
    assert (receipt.first_offset, receipt.duplicate) == (0, stored)
    assert after == [b"page 0"]


@pytest.mark.slow
def test_a_duplicate_is_answered_when_its_original_is_durable_and_not_before(
    launcher: StoppingLauncher, listen: str, in_memory: Path
) -> None:
    """Without the kill, original and duplicate are answered by the same sync."""
    stop = Stop("sync", "before", kind="page", hold=True)
    with launcher.start_to(stop, in_memory / "store", listen) as broker:
        with Client(broker.ready(), settings=SETTINGS) as client:
            client.sinks.create(SINK)
        with PublishCall(listen, SINK, "writer") as call, ThreadPoolExecutor(1) as worker:
            for _ in range(2):
                call.send(0, [b"page 0"])
            wait_held(in_memory / "store")
            original: Future[object] = worker.submit(call.answer)
            early = wait([original], timeout=0.2).done
            let_go(in_memory / "store")
            original.result(20)
            duplicate = call.answer()

    assert early == set()
    assert (duplicate.first_offset, duplicate.duplicate) == (0, True)
