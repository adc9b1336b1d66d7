"""The command starts quickly, needs no extra for its help, and ends with codes that mean something."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from typing import Any

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.cli import run
from forebay.cli.exits import ExitCode
from forebay.packaging import install_command
from tests.support.terminal.commands import commands

COMMANDS = (
    "serve",
    "quickstart",
    "demo",
    "bench",
    "sink",
    "subscription",
    "position",
    "publish",
    "peek",
    "tail",
    "replay",
    "deliver",
    "lag",
    "info",
    "gaps",
    "explain",
    "token",
    "backup",
    "journal",
    "realtime",
    "shard",
    "connections",
    "schema",
    "status",
    "top",
    "doctor",
    "producers",
    "target",
    "config",
    "contract",
    "run",
)
SINK_COMMANDS = ("create", "list", "show", "update", "delete", "pause", "resume", "purge", "seek")
SUBSCRIPTION_COMMANDS = ("create", "list", "delete", "seek")
HEAVY = ("grpc", "google.protobuf", "rocksdict", "pyspark", "pyarrow", "psutil", "pydantic", "opentelemetry")


def test_the_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == ExitCode.OK
    out = capsys.readouterr().out

    assert [name for name in COMMANDS if name not in out] == []


@pytest.mark.parametrize(
    "words",
    [
        *([name] for name in COMMANDS),
        *(["sink", name] for name in SINK_COMMANDS),
        *(["subscription", name] for name in SUBSCRIPTION_COMMANDS),
        *(["position", name] for name in ("list", "delete")),
        *(["realtime", name] for name in ("on", "off", "reset", "status")),
        *(["journal", name] for name in ("import", "export")),
        *(["backup", name] for name in ("create", "list", "verify", "restore", "prune")),
    ],
)
def test_every_command_has_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*words, "--help"]) == ExitCode.OK
    assert "Usage: forebay" in capsys.readouterr().out


def test_the_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == ExitCode.OK
    assert capsys.readouterr().out.strip() == version("forebay")


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from forebay.cli import run; run(['--help']);"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ended.stderr.strip() == "[]"


def test_without_its_extra_the_command_says_how_to_get_it() -> None:
    code = "import sys; sys.modules['typer'] = None; from forebay.cli import run; sys.exit(run(['info']))"

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert ended.returncode == ExitCode.MISSING
    assert ended.stderr.count("\n") == 1
    assert ended.stderr.strip().endswith(install_command("cli"))


def test_the_demo_without_its_extra_says_how_to_get_it() -> None:
    code = "import sys; sys.modules['psutil'] = None; from forebay.cli import run; sys.exit(run(['demo']))"

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert ended.returncode == ExitCode.MISSING
    assert ended.stderr.strip().endswith(install_command("demo"))


@pytest.mark.parametrize("argv", [["sink", "show"], ["nonsense"], ["peek", "a", "--count", "0"], ["info", "-o", "xml"]])
def test_a_wrong_command_line_is_wrong_usage(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(argv) == ExitCode.USAGE
    assert "Traceback" not in capsys.readouterr().err


EVERY_COMMAND = commands()


@pytest.mark.parametrize(("words", "command"), EVERY_COMMAND, ids=[" ".join(words) for words, _ in EVERY_COMMAND])
def test_every_command_writes_json_its_errors_too(
    words: tuple[str, ...], command: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert any("-o" in parameter.opts for parameter in command.params)

    code = run([*words, "-o", "json", "--no-such-option"])

    out, err = capsys.readouterr()
    found = json.loads(err)
    assert (out, code, found["exit_code"], found["reason"]) == ("", ExitCode.USAGE, 2, "USAGE")
    assert "--no-such-option" in found["message"]
    assert found["advice"] == f"see forebay {' '.join(words)} --help"


def test_an_error_of_the_broker_is_one_json_object_with_its_reason_and_advice(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with BrokerServer.in_memory() as broker:
        code = run(["sink", "show", "orders", "--endpoint", broker.endpoint, "--output=json"])

    found = json.loads(capsys.readouterr().err)
    assert (code, found["reason"], found["facts"]["sink"]) == (ExitCode.NOT_FOUND, "SINK_NOT_FOUND", "orders")
    assert "orders" in found["message"]


def test_words_after_two_dashes_do_not_ask_for_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["peek", "--no-such-option", "--", "-o", "json"]) == ExitCode.USAGE

    assert "Usage: forebay peek" in capsys.readouterr().err
