"""Names are completed in a shell, quietly, and quickly when the broker is not there."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from time import monotonic

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.client import Client


def completed(*words: str, endpoint: str = "127.0.0.1:1") -> tuple[list[str], str]:
    """Return the words that a shell would offer for the last of ``words``, and the error output."""
    environment = {**os.environ, "FOREBAY_ENDPOINT": endpoint, "_FOREBAY_COMPLETE": "complete_bash"}
    environment |= {"COMP_WORDS": " ".join(["forebay", *words]), "COMP_CWORD": str(len(words))}
    code = "import sys; sys.argv[0] = 'forebay'; from forebay.cli.main import main; main()"
    ended = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    return ended.stdout.split(), ended.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("sink", "show", "o"), ["orders", "others"]),
        (("lag", "ord"), ["orders"]),
        (("publish", "ev"), ["events"]),
        (("subscription", "seek", "orders", "a"), ["audit"]),
        (("explain", "orders", "3", "--subscription", "d"), ["default"]),
        (("subscription", "delete", "nothing", "a"), []),
    ],
)
def test_names_of_sinks_and_subscriptions_come_from_the_broker(words: tuple[str, ...], expected: list[str]) -> None:
    with BrokerServer.in_memory() as broker, Client(broker.endpoint) as client:
        for name in ("orders", "others", "events"):
            client.sinks.create(name)
        client.subscriptions.create("orders", "audit")

        assert completed(*words, endpoint=broker.endpoint) == (expected, "")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("sink", "create", "orders", "-s", "max_t"), ["max_total_bytes="]),
        (("sink", "update", "orders", "--set", "overflow=R"), ["overflow=REJECT"]),
        (("serve", "--set", "sink_defaults.part"), ["sink_defaults.partitions="]),
        (("serve", "--set", "realtime="), ["realtime=false", "realtime=true"]),
        (("target", "show", "po"), ["postgresql"]),
        (("deliver", "orders", "--to", "fi"), ["file"]),
        (("deliver", "orders", "--to", "http", "-O", "env"), ["envelope="]),
        (("deliver", "orders", "--to", "http", "-O", "format=s"), ["format=single"]),
        (("deliver", "orders", "--to", "none", "-O", "f"), []),
        (("deliver", "orders", "--to", "postgres://db/x", "-O", "upsert"), ["upsert_by="]),
        (("deliver", "orders", "--to", "http", "--resend-to", "fi"), ["file"]),
        (("deliver", "orders", "--to", "http", "--resend-to", "file", "-R", "pa"), ["path="]),
        (("deliver", "orders", "--to", "http", "--resend-to", "/late", "-R", "format=s"), ["format=single"]),
        (("deliver", "orders", "--to", "http", "-R", "env"), []),
    ],
)
def test_names_of_settings_and_targets_need_no_broker(words: tuple[str, ...], expected: list[str]) -> None:
    assert completed(*words) == (expected, "")


def test_a_broker_that_does_not_answer_completes_nothing_and_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        began = monotonic()

        assert completed("sink", "show", "o", endpoint=address) == ([], "")

    # The limit of the call is TIME_S; the rest is the start of two processes on a busy machine.
    assert monotonic() - began < 20
