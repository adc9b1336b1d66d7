"""Strangers that take every file descriptor they can get, or connect all at once: the broker goes on."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path

from forebay.client import Client, ClientSettings, Record, TlsSettings
from tests.support.certificates import Authority
from tests.support.processes.broker import serve_command

FILES = 1_024
STRANGERS = 1_500
PAGE_BYTES = 100_000
FLOODS, AT_ONCE = 12, 300


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


def test_floods_of_connections_that_begin_tls_do_not_end_the_broker(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    own = authority.signed("broker")
    secured = {"FOREBAY_TLS_SERVER_CERT_FILE": str(own.cert), "FOREBAY_TLS_SERVER_KEY_FILE": str(own.key)}
    trusting = ClientSettings(tls=TlsSettings(ca_file=str(authority.cert)))
    with serve_command(tmp_path / "data", environment=secured) as broker:
        endpoint = broker.ready()
        host, _, port = endpoint.rpartition(":")
        with Client(endpoint, settings=trusting) as client:
            client.sinks.create("orders")
            for _ in range(FLOODS):
                with ExitStack() as strangers:
                    for _ in range(AT_ONCE):
                        stranger = strangers.enter_context(socket.socket())
                        stranger.settimeout(10)
                        stranger.connect((host, int(port)))
                    client.publish("orders", [Record(b"v")])
            published = client.sinks.stats("orders").partitions[0].next_offset
        code = broker.terminate()

    assert published == FLOODS
    assert code == 0
