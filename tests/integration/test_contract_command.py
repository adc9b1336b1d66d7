"""`forebay contract` against brokers with TLS, tokens and rights: table, JSON, exit code, and nothing left behind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forebay.broker.core.access.credentials import token_credential
from forebay.broker.embedded import BrokerServer
from forebay.cli import run
from forebay.cli.exits import ExitCode
from forebay.client import Client, ClientSettings, TlsSettings
from forebay.contract import CHECKS
from tests.support.calls.wire_fake import WireFake
from tests.support.certificates import Authority
from tests.support.proxies.altered import AlteredBroker

NEEDED = [f"{right}=contract-*" for right in ("manage", "publish", "consume", "replay")]


def called(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any, str]:
    """Exit code, JSON and standard error of the command."""
    code = run([*words, "-o", "json"])
    out, err = capsys.readouterr()
    return code, json.loads(out) if out else None, err


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    lines = [
        token_credential("tester", "tester", NEEDED),
        token_credential("reader", "reader", ["view=*"]),
        token_credential("publisher", "publisher", ["manage=contract-*", "publish=contract-*"]),
    ]
    path.write_text("".join(f"{line.line}\n" for line in lines))
    return path


@pytest.fixture
def secured(tokens: Path, tmp_path: Path) -> Iterator[tuple[BrokerServer, Path]]:
    """A broker with TLS and tokens, and the file of the authority."""
    authority = Authority(tmp_path / "tls")
    pair = authority.signed("broker")
    settings: dict[str, Any] = {
        "tls_server_cert_file": str(pair.cert),
        "tls_server_key_file": str(pair.key),
        "token_hashes_file": str(tokens),
    }
    with BrokerServer.in_memory(**settings) as server:
        yield server, authority.cert


def test_every_check_is_a_row_with_its_result(broker: BrokerServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["contract", "--endpoint", broker.endpoint, "--area", "replay"]) == ExitCode.OK

    out, err = capsys.readouterr()
    names = [check.name for check in CHECKS if check.area == "replay"]
    assert [name for name in names if name not in out] == []
    assert out.count(" ok ") == len(names)
    assert f"{len(names)} ok" in err


def test_a_token_with_the_rights_to_the_prefix_passes_over_tls(
    secured: tuple[BrokerServer, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, authority = secured
    monkeypatch.setenv("FOREBAY_TOKEN", "tester")

    code, found, _ = called(capsys, "--tls-ca-file", str(authority), "contract", "--endpoint", broker.endpoint)

    assert [one for one in found["checks"] if one["outcome"] != "ok"] == []
    assert (code, found["counts"]["ok"]) == (ExitCode.OK, len(CHECKS))


@pytest.mark.parametrize(
    ("token", "right"), [("reader", "the right 'manage' is missing to sink contract-"), ("publisher", "'consume'")]
)
def test_a_missing_right_is_named(
    secured: tuple[BrokerServer, Path],
    token: str,
    right: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker, authority = secured
    monkeypatch.setenv("FOREBAY_TOKEN", token)

    code, found, err = called(
        capsys, "--tls-ca-file", str(authority), "contract", "--endpoint", broker.endpoint, "--area", "delivery"
    )

    assert code == ExitCode.REFUSED
    assert {one["outcome"] for one in found["checks"]} == {"denied"}
    assert any(right in one["detail"] for one in found["checks"])
    assert json.loads(err.splitlines()[-1])["reason"] == "PERMISSION_DENIED"
    settings = ClientSettings(tls=TlsSettings(ca_file=str(authority)), token="tester")
    with Client(broker.endpoint, settings=settings) as client:
        assert list(client.sinks.list()) == []


def test_no_token_ends_it_before_the_first_check(
    secured: tuple[BrokerServer, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, authority = secured
    monkeypatch.delenv("FOREBAY_TOKEN", raising=False)

    code, found, err = called(capsys, "--tls-ca-file", str(authority), "contract", "--endpoint", broker.endpoint)

    assert (code, found) == (ExitCode.REFUSED, None)
    assert json.loads(err)["reason"] == "TOKEN_REFUSED"


def test_a_broker_with_a_defect_fails(broker: BrokerServer, capsys: pytest.CaptureFixture[str]) -> None:
    with AlteredBroker(broker.endpoint, details=lambda status: b"") as altered:
        code, found, err = called(capsys, "contract", "--endpoint", altered.endpoint, "--area", "requests")

    assert code == ExitCode.FAILED
    assert {one["outcome"] for one in found["checks"]} == {"failed"}
    assert found["counts"]["failed"] == len(found["checks"]) > 30
    assert "no reason" in found["checks"][0]["detail"]
    assert json.loads(err.splitlines()[-1])["reason"] == "CONTRACT"


def test_a_broker_that_is_unreachable_is_said_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with WireFake() as fake:
        address = fake.address

    code, found, err = called(capsys, "contract", "--endpoint", address)

    assert (code, found) == (ExitCode.UNAVAILABLE, None)
    assert address in json.loads(err)["message"]


def test_an_unknown_area_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = called(capsys, "contract", "--area", "delivry")

    assert code == ExitCode.USAGE
    assert "must be one of health, reflection" in json.loads(err)["message"]
