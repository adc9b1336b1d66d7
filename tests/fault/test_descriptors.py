"""Strangers that take every file descriptor they can get, while a publisher writes: the broker goes on."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path

from holdfast.client import Client
from tests.fault.process import serve_command

FILES = 1_024
STRANGERS = 1_500
PAGE_BYTES = 100_000


def test_idle_strangers_take_no_descriptor_from_the_store(tmp_path: Path) -> None:
    limited = ["sh", "-c", f'ulimit -n {FILES} && exec "$@"', "sh"]
    with serve_command(tmp_path / "data", before=limited) as broker, ExitStack() as strangers:
        endpoint = broker.ready()
        host, _, port = endpoint.rpartition(":")
        with Client(endpoint) as client:
            client.sinks.create("orders")
            with client.publisher("orders", linger_ms=0) as publisher:
                for number in range(STRANGERS):
                    stranger = strangers.enter_context(socket.socket())
                    stranger.settimeout(10)
                    stranger.connect((host, int(port)))
                    if number % 10 == 0:
                        publisher.send(b"v" * PAGE_BYTES).result(30)
            published = client.sinks.stats("orders").partitions[0].next_offset
        code = broker.terminate()

    assert published == STRANGERS // 10
    assert code == 0
