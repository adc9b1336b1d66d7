"""Screens of commands in real terminals of 80 and 150 columns, compared with those in ``snapshots``.

With FOREBAY_UPDATE_SNAPSHOTS set they are written instead; check the difference before you commit it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from forebay.broker.core.access.credentials import certificate_credential, token_credential
from forebay.broker.embedded import BrokerServer
from forebay.broker.runtime.clock import FakeClock
from forebay.client import Client, Record, Stage, arrow
from tests.support.calls.eventually import until
from tests.support.calls.fleet_fake import fleet_of
from tests.support.storage.backed_up import BackedUp
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
LOCAL: Final = {
    "token-list": (["token", "list", "--token-hashes-file", "tokens"], 0),
    "config-check": (["config", "check", "forebay.toml"], 0),
    "config-check-wrong": (["config", "check", "wrong.toml"], 2),
    "backup-list": (["backup", "list", "--target", "target"], 0),
    "verify": (["verify", "--data-dir", "data"], 0),
    "verify-damaged": (["verify", "--data-dir", "damaged"], 1),
}
"""Commands on files, with their exit codes."""
OF_THIS_MACHINE: Final = re.compile(r" \w+ +(python|forebay|base|extra [\w-]+|java|open files|clock)  ")
"""Checks of doctor whose results differ between machines, which changes the width of the first column, too."""
SIZE: Final = re.compile(r" +[\d.]+ (?:B|KiB)(?= )")
OF_RATES: Final = re.compile(r"(?:  0|1\.0)/s|(?<= 1       )[01]\b")
"""Rates of the two streams, in top and in the list of connections."""
OF_ANY_MACHINE: Final = re.compile(r" (\w*) +(check|variables|terminal|broker) +(.*)")
MASKS: Final = (
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:#####"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "#" * 32),
    (re.compile(r"\b[0-9a-f]{16}\b"), "#" * 16),
    (re.compile(r"^( *(?:memory (?:used|limit) bytes|groups|tail bytes) +)\d.*$"), r"\1#"),
    (re.compile(r"^( *memory +)\d.*"), r"\1#"),
    (re.compile(r"memory \d+%"), "memory #"),
    (re.compile(r"(?<=000Z-)[0-9a-f]+\b"), lambda found: "#" * len(found[0])),
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


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files of every command that needs no broker."""
    folder = tmp_path_factory.mktemp("files")
    reader = token_credential("reader", "one", ["consume=orders", "view=*"])
    writer = token_credential(
        "writer", "other", ["publish=orders,events-*", "calls_per_s=5000", "bytes_per_s=10000000"]
    )
    machine = certificate_credential("machine", "machine.example", ["admin=*"])
    (folder / "tokens").write_text("\n".join(one.line for one in (reader, writer, machine)) + "\n")
    (folder / "forebay.toml").write_text(
        'tail_bytes = "1GiB"\ndrain_s = 90\nrealtime = false\n[sink_defaults]\nmax_age_s = "7d"\npartitions = 4\n'
    )
    (folder / "wrong.toml").write_text("drain = 5\nsinks_max = 0\n[sink_defaults]\noverflow = 'SOMETIMES'\n")
    kept = BackedUp(folder)
    kept.back_up()
    kept.back_up()
    kept.backups.job(full=False, at_us=kept.clock(), busy=lambda: False).prepare()
    kept.store.close()
    shutil.copytree(folder / "data", folder / "damaged")
    (folder / "damaged" / "bulk").rename(folder / "damaged" / "moved")
    return folder


@pytest.fixture
def connected() -> Iterator[BrokerServer]:
    """A broker whose clock stands still, with a publisher and a consumer."""
    clock = FakeClock()
    with BrokerServer.in_memory(clock=clock) as broker, Client(broker.endpoint) as client:
        client.sinks.create("orders", ack_deadline_s=7_200)
        with (
            client.publisher("orders", writer_id="writer-1") as publisher,
            client.subscriber("orders", consumer_id="worker-1") as deliveries,
        ):
            publisher.send(b"x" * 100)
            publisher.flush()
            delivery = next(iter(deliveries))
            clock.advance(3_725)
            until(lambda: client.info().memory_limit_bytes > 0)
            yield broker
            delivery.ack()


def streams_of(lines: list[str], heads: int) -> list[str]:
    """Return a table of connections with its streams only, sorted: the order of ports differs between runs.

    The connection of the command itself is listed once the broker has noticed it. Empty lines are left out, and rates,
    which depend on when the broker has last counted, are masked.
    """
    shown = OF_RATES.sub(lambda found: "#".rjust(len(found[0])), masked(lines[heads:]))
    rows = [line for line in shown.splitlines() if line.strip() and " 1 call " not in line]
    streams = sorted(line for line in rows if "#####" in line)
    return [*lines[:heads], *streams, *(line for line in rows if "#####" not in line)]


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
@pytest.mark.parametrize("name", LOCAL)
def test_a_command_on_files_has_the_screen_of_its_snapshot(files: Path, name: str, width: int) -> None:
    words, code = LOCAL[name]
    with Tmux([*words, *([] if words[0] == "verify" else ["--utc"])], width=width, height=90, folder=files) as terminal:
        lines = terminal.output()

    assert lines[-1] == f"{ENDED} {code}]"
    if words[0] == "backup":  # the files of a store have the path of its folder in them
        lines = [SIZE.sub(lambda found: "#".rjust(len(found[0])), line) for line in lines]
    compare(name, width, lines[:-1])


@pytest.mark.parametrize("width", WIDTHS)
def test_the_shards_of_a_fleet_have_the_screen_of_the_snapshot(width: int) -> None:
    with (
        fleet_of({"a": ["orders"], "b": ["orders"]}) as owners,
        Tmux(["shard", "list", "-e", owners["a"].address], width=width) as terminal,
    ):
        lines = terminal.output()

    assert lines[-1] == f"{ENDED} 0]"
    compare("shard-list", width, lines[:-1])


@pytest.mark.parametrize("width", WIDTHS)
def test_the_checks_of_a_broker_have_the_screen_of_the_snapshot(width: int) -> None:
    with (
        BrokerServer.in_memory() as broker,
        Tmux(["doctor", "-e", broker.endpoint], width=width, height=200) as terminal,
    ):
        lines = terminal.output()

    shown: list[str] = []
    for line in lines:
        if found := OF_ANY_MACHINE.fullmatch(line):
            shown.append(f"{found[1]:<8} {found[2]:<20} {found[3]}")
        elif found := OF_THIS_MACHINE.match(line):
            shown.append(f"#        {found[1]:<20} #")
    compare("doctor", width, shown)


@pytest.mark.parametrize("width", WIDTHS)
def test_connections_have_the_screen_of_the_snapshot(connected: BrokerServer, width: int) -> None:
    with Tmux(["connections", "-e", connected.endpoint], width=width) as terminal:
        lines = terminal.output()

    assert lines[-1] == f"{ENDED} 0]"
    compare("connections", width, streams_of(lines[:-1], 4))


@pytest.mark.parametrize("width", WIDTHS)
def test_the_connections_of_top_have_the_screen_of_the_snapshot(connected: BrokerServer, width: int) -> None:
    with Tmux(["top", "-e", connected.endpoint, "--interval", "1h"], width=width, height=14) as terminal:
        terminal.wait_for("orders")
        terminal.type("3")
        lines = terminal.wait_for("Publish")
        lines[2] = re.sub(r"\(\d\)$", "(#)", lines[2])
        compare("top-connections", width, streams_of(lines, 4))
        terminal.type("q")
        terminal.wait_for(f"{ENDED} 0]")


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
