"""A publisher or a subscriber in a process of its own, which writes down what it saw: a JSON array a line.

    python -m tests.fault_client.worker publish|subscribe ENDPOINT CA_FILE TOKEN_FILE

A client end that fails is written down and opened again. The end of standard input asks it to stop in good order.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from forebay.client import Client, ClientSettings, ForebayError, Publisher, Receipt, TlsSettings
from tests.support.clients.bridge import Loop

SINK: Final = "orders"
ASYNCIO: Final = "FOREBAY_FAULT_CLIENT_ASYNCIO"
"""Environment variable; if it is set, the worker uses the asyncio client."""
PARTITIONS: Final = 2
PAUSE_S: Final = 0.01
LARGE_EACH: Final = 50
LARGE_BYTES: Final = 70_000
"""Large ones make the broker open, fill and remove bulk files."""
KEEPALIVE_S: Final = 30.0
KEEPALIVE_TIMEOUT_S: Final = 5.0

_writing = threading.Lock()


def say(*what: object) -> None:
    """Write one line."""
    with _writing:
        print(json.dumps(what), flush=True)


def ended(who: str, error: ForebayError) -> None:
    """Write down that something ended, and why."""
    say("ended", who, type(error).__name__, error.reason, str(error)[:400])


def settings_of(ca_file: str, token_file: str) -> ClientSettings:
    """Return what a client is made with."""
    return ClientSettings(
        keepalive_s=KEEPALIVE_S,
        keepalive_timeout_s=KEEPALIVE_TIMEOUT_S,
        tls=TlsSettings(ca_file=ca_file) if ca_file else None,
        token_file=token_file,
    )


def again(who: str, stopping: threading.Event, work: Callable[[], None]) -> None:
    """Work until it is time to stop, however often it ends."""
    while not stopping.is_set():
        try:
            work()
        except ForebayError as error:
            ended(who, error)
            stopping.wait(0.2)


def publish(client: Client, stopping: threading.Event) -> None:
    """Publish records, each with its partition, its number and when it was sent."""
    number = 0

    def noted(partition: int, at: int, sent: float) -> Callable[[Future[Receipt]], None]:
        def done(future: Future[Receipt]) -> None:
            error = future.exception()
            if isinstance(error, ForebayError):
                ended("record", error)
            elif error is not None:
                say("ended", "record", type(error).__name__, "", str(error)[:400])
            else:
                say("acked", partition, future.result().last_offset, at, sent)

        return done

    def send(publisher: Publisher) -> None:
        nonlocal number
        while not stopping.is_set():
            partition, sent = number % PARTITIONS, time.monotonic()
            value = json.dumps([partition, number, sent]).encode()
            if number % LARGE_EACH < PARTITIONS:
                value += b" " * LARGE_BYTES
            publisher.send(value, partition=partition).add_done_callback(noted(partition, number, sent))
            number += 1
            time.sleep(PAUSE_S)

    def work() -> None:
        with client.publisher(SINK) as publisher:
            send(publisher)
            publisher.flush()

    again("publisher", stopping, work)


def ask(client: Client, stopping: threading.Event) -> None:
    """Make a call now and then, and write down how long it took."""
    while not stopping.is_set():
        began, why = time.monotonic(), ("", "", "")
        try:
            client.sinks.stats(SINK)
        except ForebayError as error:
            why = (type(error).__name__, error.reason, str(error)[:400])
        say("asked", time.monotonic() - began, *why)
        stopping.wait(0.5)


def subscribe(client: Client, stopping: threading.Event) -> None:
    """Take records, write them down, then ack them."""

    def work() -> None:
        with client.subscriber(SINK) as subscriber:
            while not stopping.is_set():
                delivery = subscriber.take(0.5)
                if delivery is None:
                    continue
                if delivery.gap is not None:
                    say("gap", str(delivery.gap))
                    continue
                for record in delivery:
                    partition, number, sent = json.loads(record.value)
                    say("delivered", partition, record.offset, number, sent)
                delivery.ack()

    again("subscriber", stopping, work)


def main() -> None:
    """The command."""
    role, endpoint, ca_file, token_file = sys.argv[1:5]
    stopping = threading.Event()
    settings = settings_of(ca_file, token_file)
    opened = Loop().client(endpoint, settings) if os.environ.get(ASYNCIO) else Client(endpoint, settings=settings)
    with opened as client:
        works = [publish, ask] if role == "publish" else [subscribe]
        threads = [threading.Thread(target=work, args=(client, stopping)) for work in works]
        for thread in threads:
            thread.start()
        sys.stdin.read()
        stopping.set()
        for thread in threads:
            thread.join()
    say("done", role)


if __name__ == "__main__":
    main()
