"""Broker, deliverer and target, each its own process, each killed with -9 while records are on their way."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from forebay.client import Client

WAIT_S = 60.0
RECORDS = 12_000
PARTITIONS = 3


class Child:
    """A process that reports its listen address, and listens there again after a restart."""

    def __init__(self, command: Callable[[str], list[str]], address: Callable[[dict[str, Any]], str]) -> None:
        self._command = command
        self._address = address
        self.listen = "127.0.0.1:0"
        self.start()

    def start(self) -> None:
        """Start it, and wait until it says that it is there."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", *self._command(self.listen)], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.listen = self._address(json.loads(self._process.stdout.readline()))

    def kill_and_restart(self) -> None:
        """Kill it with -9 and start it again."""
        self.kill()
        self.start()

    def kill(self) -> None:
        """Kill it with -9."""
        self._process.kill()
        self._process.communicate(timeout=WAIT_S)


@contextmanager
def child(command: Callable[[str], list[str]], address: Callable[[dict[str, Any]], str]) -> Iterator[Child]:
    """Run a process until the block ends."""
    running = Child(command, address)
    try:
        yield running
    finally:
        running.kill()


def wait_until_acked(client: Client, count: int) -> None:
    """Wait until so many records are acked, through whatever happens to the broker."""
    for stats in client.sinks.watch("orders", interval_s=0.1):
        if sum(partition.acked for partition in stats.subscriptions[0].partitions) >= count:
            assert stats.identity_ok
            return


@pytest.mark.slow
def test_whichever_process_is_killed_every_record_is_held_once_and_came_in_order(tmp_path: Path) -> None:
    def broker(listen: str) -> list[str]:
        return ["forebay.cli", "serve", "--data-dir", str(tmp_path / "broker"), "--listen", listen, "-o", "json"]

    def receiver(listen: str) -> list[str]:
        return ["forebay.deliver.receiver", "--db", str(tmp_path / "target.db"), "--listen", listen]

    with ExitStack() as stack:
        keeping = stack.enter_context(child(broker, lambda said: str(said["endpoint"])))
        target = stack.enter_context(child(receiver, lambda said: f"127.0.0.1:{said['port']}"))
        url = f"http://{target.listen}"

        def deliver(_: str) -> list[str]:
            options = ["-O", "envelope=true", "--batch-records", "50", "--endpoint", keeping.listen, "-o", "json"]
            return ["forebay.cli", "deliver", "orders", "--to", f"{url}/records", *options]

        client = stack.enter_context(Client(keeping.listen))
        client.sinks.create("orders", partitions=PARTITIONS, retry_backoff_min_s=0.01, retry_backoff_max_s=0.1)
        with client.publisher("orders") as publisher:
            for number in range(0, RECORDS, 1000):
                values = [b'{"n": %d}' % one for one in range(number, number + 1000)]
                publisher.send_many(values, partition=number // 1000 % PARTITIONS)
            publisher.flush(WAIT_S)
        delivering = stack.enter_context(child(deliver, lambda _: ""))

        for acked, killed in ((1000, target), (3000, keeping), (5000, delivering)):
            wait_until_acked(client, acked)
            killed.kill_and_restart()
        wait_until_acked(client, RECORDS)
        stats = httpx2.get(f"{url}/stats", trust_env=False).json()

    assert (stats["rows"], stats["out_of_order"]) == (RECORDS, 0)
    assert [one["last_offset"] for one in stats["partitions"]] == [RECORDS // PARTITIONS - 1] * PARTITIONS
