"""Files that are missing, unreadable or do not go together keep a broker from starting, by name."""

from __future__ import annotations

import logging
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from forebay.broker.core.access.credentials import Credentials, parse, token_credential
from forebay.broker.embedded import BrokerServer
from forebay.broker.rpc.access.audit import AUDIT_LOGGER
from forebay.broker.security import (
    Security,
    close_audit_log,
    credential_files,
    fingerprint,
    open_audit_log,
    read,
    warn_of_open_access,
)
from forebay.broker.serve import serve
from forebay.broker.settings import BrokerSettings, SettingsError, load
from forebay.broker.storage.store.memory import MemoryStore
from forebay.client import Client, ClientSettings, TlsSettings
from forebay.credentials import warnings_of
from tests.support.certificates import Authority, Pair


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.signed("broker")


def encrypted(pair: Pair, **more: Any) -> BrokerSettings:
    return load(tls_server_cert_file=str(pair.cert), tls_server_key_file=str(pair.key), **more)


def test_without_any_of_it_there_is_none() -> None:
    assert read(load()) == Security(None, None)


def test_certificates_and_token_hashes_are_read_from_their_files(
    authority: Authority, pair: Pair, tmp_path: Path
) -> None:
    hashes = tmp_path / "tokens"
    hashes.write_text(token_credential("tests", "one", ["admin=*"]).line)

    found = read(encrypted(pair, tls_client_ca_file=str(authority.cert), token_hashes_file=str(hashes)))

    assert found.certificates is not None
    assert found.credentials is not None
    assert found.certificates.chain == pair.cert.read_bytes()
    assert found.certificates.client_ca == authority.cert.read_bytes()
    assert [one.principal.name for one in found.credentials.every] == ["tests"]
    assert "PRIVATE KEY" not in repr(found)


def test_files_that_change_while_they_are_read_are_seen_as_changed(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashes = tmp_path / "tokens"
    hashes.write_text(token_credential("tests", "one", ["admin=*"]).line)
    settings = encrypted(pair, token_hashes_file=str(hashes))
    unchanged = read(settings).files

    def changed(text: str) -> Credentials:
        hashes.write_text("")
        return parse(text)

    assert unchanged == fingerprint(settings)
    monkeypatch.setattr("forebay.broker.security.parse", changed)
    assert read(settings).files == unchanged != fingerprint(settings)


def test_a_key_of_another_certificate_is_reported(authority: Authority, pair: Pair) -> None:
    other = authority.signed("other")

    with pytest.raises(SettingsError, match=r"tls_server_key_file = .*does not go with.*key values mismatch"):
        read(encrypted(Pair(pair.cert, other.key)))


def test_a_key_with_a_password_is_reported_and_not_asked_for(pair: Pair, tmp_path: Path) -> None:
    locked = tmp_path / "locked.key"
    command = ["openssl", "ec", "-aes128", "-passout", "pass:secret", "-in", str(pair.key), "-out", str(locked)]
    subprocess.run(command, check=True, capture_output=True)

    with pytest.raises(SettingsError, match="without a password"):
        read(encrypted(Pair(pair.cert, locked)))


@pytest.mark.parametrize("name", ["tls_server_cert_file", "tls_server_key_file", "tls_client_ca_file"])
@pytest.mark.parametrize("content", [None, b"", b"no PEM at all"])
def test_a_file_that_is_missing_or_nothing_of_the_kind_is_named(
    name: str, content: bytes | None, authority: Authority, pair: Pair, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.pem"
    if content is not None:
        wrong.write_bytes(content)
    files: dict[str, Any] = {
        "tls_server_cert_file": str(pair.cert),
        "tls_server_key_file": str(pair.key),
        "tls_client_ca_file": str(authority.cert),
    }

    with pytest.raises(SettingsError, match=rf"{name} = .*wrong\.pem"):
        read(load(**{**files, name: str(wrong)}))


@pytest.mark.parametrize("content", [None, b"", b"tests:a-token", b"\xff\xfe"])
def test_a_file_of_hashes_that_is_none_is_named_without_its_content(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(SettingsError, match="token_hashes_file = ") as caught:
        read(load(token_hashes_file=str(path)))

    assert "a-token" not in str(caught.value)


@pytest.mark.slow
def test_a_broker_with_a_wrong_file_does_not_start_and_closes_its_store(tmp_path: Path, pair: Pair) -> None:
    settings = encrypted(pair, data_dir=str(tmp_path / "data"), listen="127.0.0.1:0", disk_reserve_bytes=0)
    broken = settings.model_copy(update={"tls_server_key_file": str(tmp_path / "absent.key")})
    with pytest.raises(SettingsError, match=r"absent\.key"), BrokerServer.on_disk(broken):
        pass
    with pytest.raises(SettingsError, match=r"absent\.key"):
        serve(broken)

    with BrokerServer.on_disk(settings) as server:
        assert server.endpoint


def test_a_key_that_others_can_read_and_tokens_that_they_can_change_are_reported_by_the_broker(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pair = authority.signed("open")
    hashes = tmp_path / "hashes"
    hashes.write_text(token_credential("tests", "secret", ["admin=*"]).line)
    settings = encrypted(pair, token_hashes_file=str(hashes), listen="127.0.0.1:0")
    assert warnings_of(credential_files(settings), datetime.now(UTC)) == ()
    pair.key.chmod(0o644)
    hashes.chmod(0o666)

    tls = ClientSettings(tls=TlsSettings(ca_file=str(authority.cert)), token="secret")
    with (
        caplog.at_level(logging.WARNING),
        BrokerServer(settings, MemoryStore()) as server,
        Client(server.endpoint, settings=tls) as client,
    ):
        told = client.info().warnings

    assert [line.partition(" = ")[0] for line in told] == ["tls_server_key_file", "token_hashes_file"]
    assert all(line in caplog.text for line in told)


def test_a_broker_that_every_caller_of_a_network_may_use_says_so_loudly(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        warn_of_open_access(load(), read(load()))
        assert caplog.text == ""
        everywhere = load(listen="0.0.0.0:7461", allow_anonymous=True)
        warn_of_open_access(everywhere, read(everywhere))

    assert "ACCESS IS NOT CONTROLLED: every caller that reaches listen=0.0.0.0:7461" in caplog.text


def test_a_change_of_a_file_changes_the_fingerprint_and_a_look_does_not(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("one")
    settings = load(token_hashes_file=str(path))
    before = fingerprint(settings)

    assert fingerprint(settings) == before
    replacement = tmp_path / "new"
    replacement.write_text("two")
    replacement.replace(path)
    assert fingerprint(settings) != before
    path.unlink()
    assert fingerprint(settings) != before


def test_the_audit_log_has_a_file_of_its_own_that_only_its_owner_reads(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"

    handler = open_audit_log(load(audit_log_file=str(path)))
    try:
        logging.getLogger(AUDIT_LOGGER).info("a call")
    finally:
        close_audit_log(handler)
    logging.getLogger(AUDIT_LOGGER).info("after its end")

    assert path.read_text().endswith(" INFO a call\n")
    assert path.stat().st_mode & 0o077 == 0


def test_an_audit_log_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    assert open_audit_log(load()) is None
    with pytest.raises(SettingsError, match=r"audit_log_file = .*cannot be written"):
        open_audit_log(load(audit_log_file=str(tmp_path / "absent" / "audit.log")))
