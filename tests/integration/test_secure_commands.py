"""The command line against a broker with TLS and tokens, by options and by environment."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.broker.core.access.credentials import token_credential
from forebay.broker.embedded import BrokerServer
from forebay.cli import run
from forebay.cli.exits import ExitCode
from forebay.client import Client, ClientSettings, Record, TlsSettings
from forebay.errors.reasons import Reason
from tests.support.calls.eventually import stats_when
from tests.support.certificates import Authority, Pair
from tests.support.refusals import failure

TOKEN = "a-token-of-these-tests"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Pair:
    return authority.signed("broker")


@pytest.fixture
def hashes(tmp_path: Path) -> Path:
    path = tmp_path / "hashes"
    path.write_text(token_credential("tests", TOKEN, ["admin=*"]).line + "\n")
    return path


@pytest.fixture
def broker(server: Pair, hashes: Path) -> Iterator[BrokerServer]:
    with BrokerServer.in_memory(
        tls_server_cert_file=str(server.cert), tls_server_key_file=str(server.key), token_hashes_file=str(hashes)
    ) as running:
        yield running


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("FOREBAY_TLS", "FOREBAY_TOKEN"))]:
        monkeypatch.delenv(name)


def test_options_before_the_command_lead_to_the_broker(
    broker: BrokerServer, authority: Authority, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    words = ["--tls-ca-file", str(authority.cert), "--token-file", str(token)]

    assert run([*words, "sink", "create", "orders", "-e", broker.endpoint]) == ExitCode.OK
    assert run([*words, "publish", "orders", "a value", "-e", broker.endpoint]) == ExitCode.OK
    assert run([*words, "peek", "orders", "-e", broker.endpoint]) == ExitCode.OK
    assert "a value" in capsys.readouterr().out


def test_so_does_the_environment_and_an_option_wins(
    broker: BrokerServer, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("wrong")
    monkeypatch.setenv("FOREBAY_TLS_CA_FILE", str(authority.cert))
    monkeypatch.setenv("FOREBAY_TOKEN", TOKEN)
    monkeypatch.setenv("FOREBAY_ENDPOINT", broker.endpoint)

    assert run(["info"]) == ExitCode.OK
    assert run(["--token-file", str(wrong), "info"]) == ExitCode.REFUSED
    assert run(["--no-tls", "--token-without-tls", "info"]) == ExitCode.REFUSED


def test_a_refused_caller_gets_the_reason_in_one_sentence(
    broker: BrokerServer, authority: Authority, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["info", "-e", broker.endpoint]) == ExitCode.REFUSED
    assert "the broker requires TLS and this client does not use it" in capsys.readouterr().err
    assert run(["--tls-ca-file", str(authority.cert), "info", "-e", broker.endpoint]) == ExitCode.REFUSED
    assert "TOKEN_REFUSED" in capsys.readouterr().err
    assert run(["--tls-ca-file", "absent.pem", "info", "-e", broker.endpoint]) == ExitCode.USAGE
    assert "tls_ca_file = absent.pem" in capsys.readouterr().err


def test_serve_takes_it_all_and_sighup_renews_the_tokens(
    authority: Authority, server: Pair, hashes: Path, tmp_path: Path
) -> None:
    words = ["--tls-server-cert-file", str(server.cert), "--tls-server-key-file", str(server.key)]
    command = [sys.executable, "-m", "forebay.cli", "serve", "--data-dir", str(tmp_path / "data")]
    process = subprocess.Popen(
        [
            *command,
            "-s",
            "listen=127.0.0.1:0",
            "-s",
            "sink_defaults.partitions=3",
            *words,
            "--token-hashes-file",
            str(hashes),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        found = re.search(r"listening on (\S+)", process.stdout.readline())
        assert found is not None
        tls = TlsSettings(ca_file=str(authority.cert))
        with Client(found[1], settings=ClientSettings(tls=tls, token=TOKEN)) as client:
            assert client.sinks.create("orders").settings.partitions == 3
            hashes.write_text(token_credential("tests", "another", ["admin=*"]).line)
            process.send_signal(signal.SIGHUP)
            for line in process.stderr:
                if "certificates and tokens were renewed" in line:
                    break
            with failure(Reason.TOKEN_REFUSED):
                client.info()
        with Client(found[1], settings=ClientSettings(tls=tls, token="another")) as client:
            assert client.info().version
    finally:
        process.terminate()
        rest = process.communicate(timeout=30)[1]
    assert process.returncode == 0
    assert TOKEN not in rest


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tls-server-cert-file", "absent.pem", "--tls-server-key-file", "absent.key"], "absent.pem: cannot be read"),
        (["--tls-server-cert-file", "absent.pem"], "is of no use without tls_server_key_file"),
        (["--token-hashes-file", "absent", "--listen", "0.0.0.0:0"], "tokens would go unencrypted"),
        (["-s", "token_hashes_file=absent", "--listen", "0.0.0.0:0"], "tokens would go unencrypted"),
    ],
)
def test_serve_does_not_start_half_protected(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["serve", "--data-dir", str(tmp_path / "data"), *words]) == ExitCode.USAGE
    assert said in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_a_deliverer_takes_a_sink_over_tls_to_its_target(
    broker: BrokerServer, authority: Authority, tmp_path: Path
) -> None:
    tls = TlsSettings(ca_file=str(authority.cert))
    out = tmp_path / "out.jsonl"
    environment = {**os.environ, "FOREBAY_TLS_CA_FILE": str(authority.cert), "FOREBAY_TOKEN": TOKEN}
    command = [sys.executable, "-m", "forebay.cli", "deliver", "orders", "--to", "file", "-O", f"path={out}"]
    with Client(broker.endpoint, settings=ClientSettings(tls=tls, token=TOKEN)) as client:
        client.sinks.create("orders")
        client.publish("orders", [Record(b'"a value"')])
        process = subprocess.Popen([*command, "--endpoint", broker.endpoint], env=environment, stderr=subprocess.PIPE)
        try:
            stats_when(client, "orders", lambda stats: stats.subscriptions[0].partitions[0].acked == 1)
        finally:
            process.terminate()
            said = process.communicate(timeout=30)[1]

    assert process.returncode == 0
    assert ["a value" in path.read_text() for path in tmp_path.glob("out*")] == [True]
    assert TOKEN.encode() not in said
