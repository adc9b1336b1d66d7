"""Publishes to sinks of a fleet, and reports at intervals how many records have a receipt, and how many wait for one.

    publisher.py [--interval-s S] [--report-s S] [--records N] SINK...      (the fleet: FOREBAY_ENDPOINT)

Without `--records` it runs until SIGTERM. It ends with code 0 if each record has a receipt.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from concurrent.futures import Future
from contextlib import ExitStack
from itertools import count
from typing import Final

from forebay.client import Client, Publisher, Receipt

PATIENCE_S: Final = 3_600.0
"""Time for an outage, after which a record fails."""


class Account:
    """Records of one sink."""

    def __init__(self, sink: str, publisher: Publisher) -> None:
        """Begin with no record."""
        self._sink: Final = sink
        self._publisher: Final = publisher
        self._lock: Final = threading.Lock()  # protects the counts, which the thread of the client changes
        self._sent = self._confirmed = self._failed = 0
        self._cause = ""

    @property
    def missing(self) -> int:
        """Records without a receipt."""
        with self._lock:
            return self._sent - self._confirmed

    def send(self, value: bytes) -> None:
        """Send a record without waiting for its receipt."""
        with self._lock:
            self._sent += 1
        self._publisher.send(value).add_done_callback(self._note)

    def _note(self, done: Future[Receipt]) -> None:
        error = done.exception()
        with self._lock:
            if error is None:
                self._confirmed += 1
            else:
                self._failed, self._cause = self._failed + 1, str(error)

    def line(self) -> str:
        """Return the counts as text."""
        with self._lock:
            waiting = self._sent - self._confirmed - self._failed
            failed = f", {self._failed} failed: {self._cause}" if self._failed else ""
            return f"{self._sink}: {self._confirmed} confirmed, {waiting} waiting{failed}"


def main() -> int:
    """Publish, report, and wait for the last receipts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sinks", nargs="+", metavar="SINK")
    parser.add_argument("--interval-s", type=float, default=0.2)
    parser.add_argument("--report-s", type=float, default=1.0)
    parser.add_argument("--records", type=int)
    options = parser.parse_args()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with Client(os.environ["FOREBAY_ENDPOINT"]) as client:
        with ExitStack() as opened:
            accounts = [
                Account(sink, opened.enter_context(client.publisher(sink, delivery_timeout_s=PATIENCE_S)))
                for sink in options.sinks
            ]
            every = max(1, round(options.report_s / options.interval_s))
            for number in range(options.records) if options.records is not None else count():
                for account in accounts:
                    account.send(b"%d" % number)
                if number % every == every - 1:
                    report(accounts)
                if stop.wait(options.interval_s):
                    break
        report(accounts)
    return 1 if any(account.missing for account in accounts) else 0


def report(accounts: list[Account]) -> None:
    """Write one line."""
    sys.stdout.write("; ".join(account.line() for account in accounts) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
