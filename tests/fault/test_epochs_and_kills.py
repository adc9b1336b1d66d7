"""A broker is killed at random moments while epochs are staged and committed over two sinks."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from forebay.client import Client
from tests.support.calls.eventually import values_of
from tests.support.campaigns.epoch_writer import PARTITIONS, SINKS, EpochWriter, values_of_epoch
from tests.support.campaigns.publishers import SETTINGS
from tests.support.processes.stopping import StoppingLauncher

KILLS = 8
LIFE_S = (0.02, 0.6)
"""Of a broker, from when it serves."""
LAST_S = 60.0
SEED = 11


@pytest.mark.slow
def test_after_kills_every_epoch_is_whole_or_absent_and_there_once(
    launcher: StoppingLauncher, listen: str, in_memory: Path
) -> None:
    chance = random.Random(SEED)
    store = in_memory / "store"
    writer = EpochWriter(listen, SEED)
    with ThreadPoolExecutor(1) as worker:
        with launcher.start(store, listen) as broker:
            broker.ready()
            with Client(listen, settings=SETTINGS) as client:
                for sink in SINKS:
                    client.sinks.create(sink, partitions=PARTITIONS)
            working = worker.submit(writer.work)
            wait([working], timeout=chance.uniform(*LIFE_S))
        for _ in range(KILLS - 1):
            with launcher.start(store, listen) as broker:
                broker.ready()
                wait([working], timeout=chance.uniform(*LIFE_S))
                assert not working.done(), working.result()
        with launcher.start(store, listen) as broker:
            broker.ready()
            writer.stop()
            working.result(LAST_S)
            assert broker.terminate() == 0

    with launcher.start(store, listen) as broker:
        broker.ready()
        with Client(listen, settings=SETTINGS) as client:
            found = {(sink, p): values_of(client, sink, p) for sink in SINKS for p in range(PARTITIONS)}
        assert writer.repeat_with(1) == "EPOCH_CONTENT_CONFLICT"
        assert writer.repeat_with(0) == ""
        broker.kill()

    with launcher.start(store, listen) as broker:
        broker.ready()
        assert writer.repeat_with(-1) == "EPOCH_CONTENT_CONFLICT"
        assert broker.terminate() == 0

    assert writer.done == writer.begun > 0
    for (_, partition), values in found.items():
        assert values == [value for epoch in range(writer.done) for value in values_of_epoch(epoch, partition)]
