"""Text of strangers, from payload to reason, through every command that shows it: nothing acts, no line is forged."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from forebay.broker.embedded import BrokerServer
from forebay.broker.settings import load
from forebay.cli.exits import ExitCode
from forebay.cli.main import run
from forebay.client import Client, Record, arrow
from forebay.text import is_safe
from tests.support.terminal.commands import commands

EVIL = "e\x1b]0;owned\x07\x9b31m\r\n2026-01-01 00:00:00 INFO forged\u202e\u2066[red]x[/red]:smile:\u200b\u2028"


@dataclass(frozen=True, slots=True)
class Site:
    """A broker that was given hostile text wherever it takes text, and files with hostile text."""

    endpoint: str
    folder: Path
    """Working directory: the directories and files that commands read are in it."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Payloads, keys, headers, reasons, columns, a consumer's words and files are hostile."""
    folder = tmp_path_factory.mktemp("site")
    settings = load(
        data_dir=folder / "data", listen="127.0.0.1:0", disk_ballast_bytes=0, backup_target=str(folder / "backups")
    )
    with (
        contextlib.chdir(folder),
        BrokerServer.on_disk(settings) as broker,
        Client(broker.endpoint) as client,
    ):
        for name in ("broker.toml", "deliveries.toml", "tokens"):
            Path(name).write_text(f"{EVIL} = {EVIL!r}\n", encoding="utf-8")
        _fill(client)
        assert run(["backup", "create", "--endpoint", broker.endpoint]) == ExitCode.OK
        shutil.copytree("backups", "copies")
        assert run(["backup", "restore", "--target", "copies", "--into", "stopped"]) == ExitCode.OK
        yield Site(broker.endpoint, folder)


def _fill(client: Client) -> None:
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
    client.position_store("broker:").compare_and_write("default/billing/orders/0", EVIL.encode(), None)
    client.sinks.create("spare")
    client.sinks.create("rows")
    rows = pa.RecordBatch.from_pydict({EVIL: [EVIL]})
    version = client.schemas.register("rows", arrow.encode_schema(rows.schema), previous=0)
    with client.publisher("rows") as publisher:
        publisher.send_page(arrow.page(rows, version), partition=0).result()


OF_ITS_OWN: Final = {
    "serve": "its log: tests/unit/text and test_logs; its data: all other commands",
    "quickstart": "a broker and records of its own",
    "demo": "a broker and records of its own",
    "bench": "a broker and records of its own",
    "contract": "sinks and records of its own",
}
"""Commands that show no text of others."""

CASES: Final[dict[str, list[list[str]]]] = {
    "deliver": [["orders", "--to", EVIL], ["orders", "--to", "file", "-O", f"{EVIL}=1"]],
    "run": [["deliveries.toml", "--check"]],
    "status": [[], ["--strict"]],
    "top": [["--count", "1"]],
    "doctor": [[], ["--data-dir", "stopped"]],
    "lag": [[], ["orders"], ["orders", "--partitions"], ["--paths"], [EVIL]],
    "gaps": [["orders"], [EVIL]],
    "explain": [["orders", "1"], ["orders", "2"], ["rows", "0"]],
    "connections": [[]],
    "info": [[]],
    "shard list": [[]],
    "shard hand-over": [["--to", EVIL]],
    "shard remove": [[EVIL, "--journal", EVIL], ["b", "--journal", EVIL, "--dry-run"]],
    "journal import": [["--journal", EVIL, "--data-dir", EVIL]],
    "journal export": [["--journal", EVIL, "--data-dir", EVIL]],
    "publish": [["spare", EVIL, "--key", EVIL, "--header", f"{EVIL}={EVIL}"], ["rows", EVIL]],
    "peek": [["orders", "--offset", "2"], ["rows"], [EVIL]],
    "tail": [["orders"], ["rows"]],
    "replay": [["orders"], ["rows"], ["orders", "--start", EVIL]],
    "verify": [["--data-dir", "stopped"], ["--data-dir", EVIL]],
    "repair": [["--data-dir", "stopped", "--into", "repaired"]],
    "token create": [[EVIL, "--token-hashes-file", "made", "--allow", "publish=orders"]],
    "token list": [["--token-hashes-file", "tokens"]],
    "token revoke": [[EVIL, "--yes", "--token-hashes-file", "tokens"]],
    "config check": [["broker.toml"]],
    "target list": [[]],
    "target show": [["http"], [EVIL]],
    "sink create": [[EVIL], ["other", "--set", f"{EVIL}=1"]],
    "sink list": [[]],
    "sink show": [["orders"], ["rows"], [EVIL]],
    "sink update": [["orders", "--set", f"max_age_s={EVIL}"]],
    "sink delete": [["orders", "--dry-run"], [EVIL, "--yes"]],
    "sink pause": [["spare", EVIL], ["spare", "--reason", EVIL]],
    "sink resume": [["spare"], [EVIL]],
    "sink purge": [["orders", "--all", "--dry-run"], ["orders", "--until-time", EVIL]],
    "sink seek": [["orders", "--to", "latest", "--dry-run"], ["orders", "--to", EVIL]],
    "subscription create": [["orders", EVIL]],
    "subscription list": [["orders"]],
    "subscription delete": [["orders", EVIL, "--yes"]],
    "subscription seek": [["orders", EVIL, "--to", "latest"]],
    "position list": [[], [EVIL]],
    "position delete": [["orders", "billing", "--dry-run"], ["orders", EVIL, "--dry-run"]],
    "dlq list": [["orders"]],
    "dlq redrive": [["orders", "--error", EVIL, "--dry-run"], ["orders", "--dry-run"]],
    "dlq purge": [["orders", "--error", EVIL, "--dry-run"], ["orders", "--all", "--dry-run"]],
    "realtime on": [["spare"], [EVIL]],
    "realtime off": [["spare"], [EVIL]],
    "realtime reset": [["spare"], [EVIL]],
    "realtime status": [[], [EVIL]],
    "schema list": [["rows"]],
    "schema show": [["rows"]],
    "producers list": [[], ["orders"]],
    "backup create": [[]],
    "backup list": [["--target", "copies"], ["--target", EVIL]],
    "backup verify": [["--target", "copies"]],
    "backup restore": [
        ["--target", "copies", "--into", "restored"],
        ["--target", "copies", "--id", EVIL, "--into", "x"],
    ],
    "backup prune": [["--target", "copies", "--dry-run"]],
    "quarantine list": [["--data-dir", "stopped"], ["--data-dir", EVIL]],
    "quarantine export": [["--data-dir", "stopped", "--into", "pages"]],
}
"""Arguments of every command: what is stored, and hostile text as arguments."""


def test_every_command_is_tried_or_shows_nothing_of_others() -> None:
    assert sorted([*CASES, *OF_ITS_OWN]) == sorted(" ".join(words) for words, _ in commands())


@pytest.mark.parametrize("words", CASES)
def test_no_command_writes_anything_that_acts(words: str, site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    (options,) = (
        {name for one in found.params for name in one.opts} for its, found in commands() if " ".join(its) == words
    )
    for arguments in CASES[words]:
        for output in ([], ["-o", "json"]):
            capsys.readouterr()
            run(
                [
                    *words.split(),
                    *arguments,
                    *output,
                    *(["--endpoint", site.endpoint] if "--endpoint" in options else []),
                ]
            )

            written = capsys.readouterr()
            lines = [*written.out.split("\n"), *written.err.split("\n")]
            assert any(lines), arguments
            assert [line for line in lines if not is_safe(line)] == [], arguments
            assert not any(line.lstrip().startswith("2026-01-01 00:00:00 INFO forged") for line in lines), arguments
            if output:
                _is_json(written.out, arguments)


def _is_json(text: str, arguments: list[str]) -> None:
    try:
        json.loads(text or "null")
    except ValueError:
        for line in text.splitlines():
            json.loads(line)


def test_values_for_programs_are_the_bytes_as_they_are(site: Site, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    run(["replay", "orders", "--start", "2", "--end", "3", "-o", "values", "--endpoint", site.endpoint])

    assert capfdbinary.readouterr().out == EVIL.encode() + b"\n"


def test_a_word_that_is_shown_is_recognised(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    shown: Callable[[], str] = lambda: capsys.readouterr().out  # noqa: E731 - read at each use
    run(["replay", "orders", "--start", "2", "--end", "3", "--endpoint", site.endpoint])

    assert "\\x1b]0;owned\\x07" in shown()
