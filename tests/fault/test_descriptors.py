"""Unknown clients that exhaust file descriptors, or connect all at once: the broker continues."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from forebay.broker.core.access.credentials import token_credential
from forebay.client import Client, ClientSettings, Record, TlsSettings
from tests.support.certificates import Authority
from tests.support.processes.broker import serve_command

FILES = 1_024
STRANGERS = 1_500
PAGE_BYTES = 100_000
FLOODS, AT_ONCE = 12, 300
TOKEN = "the-token-of-the-one-who-is-known-here"


@dataclass(frozen=True, slots=True)
class Access:
    """Demands of a broker on its clients, and the settings of one that meets them."""

    environment: dict[str, str] = field(default_factory=dict)
    own: ClientSettings = field(default_factory=ClientSettings)


def everything_demanded(folder: Path) -> Access:
    """TLS with a client's certificate, and a token."""
    authority = Authority(folder)
    server, own = authority.signed("broker"), authority.signed("known")
    hashes = folder / "hashes"
    hashes.write_text(token_credential("known", TOKEN, ["admin=*"]).line)
    hashes.chmod(0o600)
    return Access(
        {
            "FOREBAY_TLS_SERVER_CERT_FILE": str(server.cert),
            "FOREBAY_TLS_SERVER_KEY_FILE": str(server.key),
            "FOREBAY_TLS_CLIENT_CA_FILE": str(authority.cert),
            "FOREBAY_TOKEN_HASHES_FILE": str(hashes),
        },
        ClientSettings(
            tls=TlsSettings(ca_file=str(authority.cert), cert_file=str(own.cert), key_file=str(own.key)), token=TOKEN
        ),
    )


@pytest.mark.parametrize("demands", [False, True], ids=["plain", "TLS, certificates and tokens"])
def test_idle_strangers_take_no_descriptor_from_the_store(tmp_path: Path, *, demands: bool) -> None:
    access = everything_demanded(tmp_path / "secrets") if demands else Access()
    limited = ["sh", "-c", f'ulimit -n {FILES} && exec "$@"', "sh"]
    serving = serve_command(tmp_path / "data", before=limited, environment=access.environment)
    with serving as broker, ExitStack() as strangers:
        endpoint = broker.ready()
        host, _, port = endpoint.rpartition(":")
        with Client(endpoint, settings=access.own) as client:
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
