"""Screens of commands in real terminals of 80 and 150 columns, compared with those in ``snapshots``.

With FOREBAY_UPDATE_SNAPSHOTS set they are written instead; check the difference before you commit it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from forebay.broker.embedded import BrokerServer
from forebay.broker.runtime.clock import FakeClock
from forebay.client import Client, Record, Stage, arrow
from tests.support.calls.eventually import until
from tests.support.terminal.tmux import ENDED, Tmux

SNAPSHOTS: Final = Path(__file__).with_name("snapshots")
WIDTHS: Final = (80, 150)

COMMANDS: Final = {
    "lag": ["lag"],
    "lag-wide": ["lag", "-w"],
    "lag-partitions": ["lag", "orders", "-p"],
    "status": ["status"],
    "info": ["info"],
    "explain": ["explain", "orders", "3"],
}
LISTS: Final = {
    "sink-list": ["sink", "list"],
    "sink-show": ["sink", "show", "orders"],
    "subscription-list": ["subscription", "list", "orders"],
    "gaps": ["gaps", "purged"],
    "dlq-list": ["dlq", "list", "orders"],
    "lag-paths": ["lag", "--paths"],
    "seek": ["subscription", "seek", "orders", "audit", "--to", "latest", "--dry-run"],
    "peek": ["peek", "orders", "--count", "3"],
    "schema-list": ["schema", "list", "rows"],
    "schema-show": ["schema", "show", "rows"],
    "producers-list": ["producers", "list"],
    "realtime-status": ["realtime", "status"],
    "target-list": ["target", "list"],
    "target-show": ["target", "show", "http"],
}
"""Commands that list something of the second broker, or of this installation."""
MASKS: Final = (
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:#####"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "#" * 32),
    (re.compile(r"\b[0-9a-f]{16}\b"), "#" * 16),
    (re.compile(r"^( *(?:memory (?:used|limit) bytes|groups|tail bytes) +)\d.*$"), r"\1#"),
    (re.compile(r"^( *memory +)\d.*"), r"\1#"),
    (re.compile(r"memory \d+%"), "memory #"),
)
"""Texts that differ between machines and runs."""


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerServer]:
    """A broker whose clock stands still, with sinks in several states."""
    clock = FakeClock()
    with BrokerServer.in_memory(clock=clock) as broker, Client(broker.endpoint) as client:
        client.sinks.create("orders", partitions=2)
        client.sinks.create("events-of-the-northern-warehouse")
        client.sinks.create("invoices")
        client.subscriptions.create("orders", "audit")
        client.publish("orders", [Record(b"x" * 100)] * 1_234, partition=0)
        client.publish("invoices", [Record(b"x")] * 7)
        client.sinks.pause("invoices", "the target is being moved to another data centre")
        clock.advance(3_725)
        until(lambda: client.info().memory_limit_bytes > 0)
        yield broker


@pytest.fixture(scope="module")
def filled() -> Iterator[BrokerServer]:
    """A broker whose clock stands still, with one of everything that a command lists."""
    clock = FakeClock()
    with BrokerServer.in_memory(clock=clock) as broker, Client(broker.endpoint) as client:
        client.sinks.create("orders", partitions=2, dlq_ratio_max=1.0)
        client.subscriptions.create("orders", "audit")
        client.publish("orders", [Record(b'{"id": %d}' % n, key=b"key-%d" % n) for n in range(6)], partition=0)
        with client.subscriber("orders") as orders:
            next(iter(orders)).dead_letter("HTTP 422 Unprocessable Content", offset=0, last=1, wait=True)
        client.sinks.create("rows")
        schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
        client.schemas.register("rows", arrow.encode_schema(schema), previous=0)
        ticket = client.epochs.take_ticket("orders")
        stage = Stage("query", 7, "run-1", ticket, write_name="hourly", application="application_1410901177871_0001")
        with client.publisher("orders", stage=stage) as publisher:
            publisher.send(b"x", partition=1)
            publisher.flush()
        client.sinks.create("purged-of-the-northern-warehouse", partitions=2)
        client.sinks.create("purged")
        client.publish("purged", [Record(b"x")] * 1_234)
        client.sinks.purge("purged")
        clock.advance(90)
        until(lambda: client.info().memory_limit_bytes > 0)
        yield broker


def masked(lines: list[str]) -> str:
    """Return the screen without what differs between machines and runs, and without empty lines at its end."""
    text = "\n".join(lines).rstrip().replace(version("forebay"), "#.#.#")
    for pattern, mask in MASKS:
        text = "\n".join(pattern.sub(mask, line) for line in text.split("\n"))
    return "\n".join(line.rstrip() for line in text.split("\n")) + "\n"


def compare(name: str, width: int, lines: list[str]) -> None:
    """Compare a screen with its snapshot, or write it."""
    path = SNAPSHOTS / f"{name}-{width}.txt"
    if "FOREBAY_UPDATE_SNAPSHOTS" in os.environ:
        path.write_text(masked(lines), encoding="utf-8")
    assert masked(lines) == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_the_screen_of_its_snapshot(broker: BrokerServer, name: str, width: int) -> None:
    with Tmux([*COMMANDS[name], "-e", broker.endpoint], width=width, height=90) as terminal:
        lines = terminal.output()

    assert lines[-1] == f"{ENDED} 0]"
    compare(name, width, lines[:-1])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", LISTS)
def test_a_list_has_the_screen_of_its_snapshot(filled: BrokerServer, name: str, width: int) -> None:
    needs_broker = LISTS[name][0] != "target"
    words = [*LISTS[name], "--utc", *(["-e", filled.endpoint] if needs_broker else [])]
    with Tmux(words, width=width, height=90) as terminal:
        lines = terminal.output()

    assert lines[-1] == f"{ENDED} 0]"
    compare(name, width, lines[:-1])


@pytest.mark.parametrize("width", WIDTHS)
def test_each_view_of_top_has_the_screen_of_its_snapshot(broker: BrokerServer, width: int) -> None:
    with Tmux(["top", "-e", broker.endpoint, "--interval", "1h"], width=width, height=14) as terminal:
        compare("top-sinks", width, terminal.wait_for("invoices"))
        terminal.type("2")
        compare("top-deliveries", width, terminal.wait_for("orders/audit"))
        terminal.type("/", "a", "u", "d", "Enter")
        terminal.wait_for("(1)  filter: aud")
        terminal.type("Enter")
        compare("top-partitions", width, terminal.wait_for("audit:1"))
        terminal.type("q")
        terminal.wait_for(f"{ENDED} 0]")


def test_top_leaves_the_terminal_as_it_was(broker: BrokerServer) -> None:
    for key, code in (("q", 0), ("C-c", 130)):
        with Tmux(["top", "-e", broker.endpoint], width=80, height=14) as terminal:
            terminal.wait_for("invoices")
            assert terminal.flags() == (False, True)
            terminal.type(key)
            lines = terminal.wait_for(f"{ENDED} {code}]")

            assert (lines[0], "invoices" in "\n".join(lines)) == ("before", False)
            assert terminal.flags() == (True, False)
            terminal.type("typed")
            terminal.wait_for("typed")


def test_top_names_an_outage_and_keeps_the_last_figures() -> None:
    with BrokerServer.in_memory() as broker:
        with Client(broker.endpoint) as client:
            client.sinks.create("orders")
        terminal = Tmux(["top", "-e", broker.endpoint, "--interval", "200ms"], width=150, height=14)
        with terminal:
            terminal.wait_for("orders")
            broker.stop()
            lines = terminal.wait_for("no answer for")
            terminal.type("s", "q")
            terminal.wait_for(f"{ENDED} 0]")

    assert "orders" in "\n".join(lines)
