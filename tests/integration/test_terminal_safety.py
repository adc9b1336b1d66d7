"""Text of strangers, from payload to reason, through every command that shows it: nothing acts, no line is forged."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.cli.main import run
from forebay.client import Client, Record
from forebay.text import is_safe

EVIL = "e\x1b]0;owned\x07\x9b31m\r\n2026-01-01 00:00:00 INFO forged\u202e\u2066[red]x[/red]:smile:\u200b\u2028"


@pytest.fixture
def evil(broker: BrokerServer, client: Client) -> str:
    """A sink whose payloads, keys, headers, reasons and consumer's words are hostile; returns the endpoint."""
    client.sinks.create("orders", max_attempts=0)
    record = Record(EVIL.encode(), key=EVIL.encode(), headers={EVIL[:60]: EVIL.encode()})
    client.publish("orders", [record] * 5)
    with client.subscriber("orders") as deliveries:
        one = next(deliveries)
        one.dead_letter(EVIL, offset=0, wait=True)
    with client.subscriber("orders") as deliveries:
        one = next(deliveries)
        one.drop(EVIL, offset=one.first_offset, wait=True)
    with client.subscriber("orders") as deliveries:
        next(deliveries).nack(reason=EVIL, delay_s=600, wait=True)
    client.sinks.pause("orders", EVIL)
    return broker.endpoint


COMMANDS: dict[str, list[str]] = {
    "peek": ["peek", "orders", "--offset", "2"],
    "peek as json": ["peek", "orders", "--offset", "2", "-o", "json"],
    "replay": ["replay", "orders"],
    "replay as json": ["replay", "orders", "-o", "json"],
    "lag": ["lag", "orders"],
    "lag as json": ["lag", "orders", "-o", "json"],
    "gaps": ["gaps", "orders"],
    "gaps as json": ["gaps", "orders", "-o", "json"],
    "dlq list": ["dlq", "list", "orders"],
    "dlq list as json": ["dlq", "list", "orders", "-o", "json"],
    "explain": ["explain", "orders", "1"],
    "explain what waits": ["explain", "orders", "2"],
    "explain as json": ["explain", "orders", "1", "-o", "json"],
    "show": ["sink", "show", "orders"],
    "info": ["info"],
    "an error that quotes": ["peek", EVIL],
    "a subscription's name": ["subscription", "create", "orders", EVIL],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_writes_anything_that_acts(command: str, evil: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*COMMANDS[command], "--endpoint", evil]

    run(arguments)

    written = capsys.readouterr()
    lines = [*written.out.split("\n"), *written.err.split("\n")]
    assert any(lines)
    assert [line for line in lines if not is_safe(line)] == []
    assert not any(line.lstrip().startswith("2026-01-01 00:00:00 INFO forged") for line in lines)
    if "json" in command:
        for line in written.out.splitlines():
            json.loads(line)


def test_values_for_programs_are_the_bytes_as_they_are(evil: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    run(["replay", "orders", "--start", "2", "--end", "3", "-o", "values", "--endpoint", evil])

    assert capfdbinary.readouterr().out == EVIL.encode() + b"\n"


def test_a_word_that_is_shown_is_recognised(evil: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown: Callable[[], str] = lambda: capsys.readouterr().out  # noqa: E731 - read at each use
    run(["replay", "orders", "--start", "2", "--end", "3", "--endpoint", evil])

    assert "\\x1b]0;owned\\x07" in shown()
