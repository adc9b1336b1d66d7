"""SIGHUP ends neither a broker nor a deliverer, whenever it comes."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue

from forebay.broker.embedded import BrokerServer
from forebay.client import Client, Record

WAIT_S = 30


class Running:
    """A command in a process of its own."""

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "forebay.cli", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._lines: Queue[str] = Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)

    def until(self, text: str) -> str:
        """Return the first line with ``text``."""
        while True:
            line = self._lines.get(timeout=WAIT_S)
            if text in line:
                return line

    def close(self) -> int:
        """Stop it with SIGTERM, return its exit code."""
        self.process.terminate()
        code = self.process.wait(WAIT_S)
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@contextmanager
def running(*words: str) -> Iterator[Running]:
    """Run a command; it has to end well."""
    one = Running(*words)
    try:
        yield one
    finally:
        code = one.close()
    assert code == 0


def test_a_broker_without_certificates_or_tokens_takes_a_hang_up_as_a_line_in_its_log(tmp_path: Path) -> None:
    with running("serve", "--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0") as broker:
        endpoint = broker.until("listening on").split()[-1]
        broker.process.send_signal(signal.SIGHUP)
        broker.until("nothing to renew")
        with Client(endpoint) as client:
            client.sinks.create("orders")
            assert client.publish("orders", [Record(b"a")])


def test_a_broker_that_stops_is_not_torn_from_its_stop_by_a_hang_up(tmp_path: Path) -> None:
    with running("serve", "--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0") as broker:
        broker.until("listening on")
        broker.process.terminate()
        for _ in range(20):
            broker.process.send_signal(signal.SIGHUP)


def test_a_follower_continues_after_a_hang_up(tmp_path: Path) -> None:
    journal = ("--set", f"journal={tmp_path / 'journal'}", "--listen", "127.0.0.1:0")
    with running("serve", "--data-dir", str(tmp_path / "a"), *journal) as owner:
        owner.until("listening on")
        with running("serve", "--data-dir", str(tmp_path / "b"), *journal) as follower:
            follower.until("following a journal")
            follower.process.send_signal(signal.SIGHUP)


def test_a_deliverer_continues_after_a_hang_up(broker: BrokerServer, client: Client, tmp_path: Path) -> None:
    client.sinks.create("orders")
    client.publish("orders", [Record(b"a")])
    out = tmp_path / "out.jsonl"
    words = ("deliver", "orders", "--to", "file", "-O", f"path={out}", "--endpoint", broker.endpoint)
    with running(*words) as deliverer:
        deliverer.until("delivering orders")
        deliverer.process.send_signal(signal.SIGHUP)
        deliverer.until("SIGHUP is ignored")
        client.publish("orders", [Record(b"b")])
        while client.sinks.stats("orders").subscriptions[0].partitions[0].acked < 2:
            threading.Event().wait(0.02)
