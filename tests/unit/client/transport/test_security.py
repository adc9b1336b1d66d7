"""Sources of the token, connections that may carry it, and errors of unusable files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from forebay.client import Client, ClientSettings, CredentialsUnusable, TlsSettings
from forebay.client.transport.security import (
    TOKEN_BYTES_MAX,
    check_files,
    fingerprint,
    open_channel,
    token_of,
)
from tests.support.certificates import Authority


def test_the_token_is_read_from_where_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "token"
    file.write_text(" of-the-file \nand a remark\n")
    monkeypatch.setenv("MINE", "of-the-environment")

    assert token_of(ClientSettings(token="of-the-settings")) == "of-the-settings"
    assert token_of(ClientSettings(token_file=str(file))) == "of-the-file"
    assert token_of(ClientSettings(token_env="MINE")) == "of-the-environment"


def test_a_place_without_a_token_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MINE", raising=False)
    (tmp_path / "empty").touch()

    with pytest.raises(CredentialsUnusable, match="the environment variable MINE: contains no token"):
        token_of(ClientSettings(token_env="MINE"))
    with pytest.raises(CredentialsUnusable, match=r"token_file = .*empty: contains no token"):
        token_of(ClientSettings(token_file=str(tmp_path / "empty")))
    with pytest.raises(CredentialsUnusable, match=r"token_file = .*absent: cannot be read: No such file"):
        token_of(ClientSettings(token_file=str(tmp_path / "absent")))


@pytest.mark.parametrize("token", ["two words", "tab\there", "zwölf", "new\nline", "x" * (TOKEN_BYTES_MAX + 1)])
def test_an_invalid_token_is_refused_and_not_repeated_in_the_error(token: str) -> None:
    with pytest.raises(CredentialsUnusable, match="printable ASCII") as caught:
        token_of(ClientSettings(token=token))

    assert token not in str(caught.value)


@pytest.mark.parametrize("endpoint", ["127.0.0.1:7461", "localhost:7461", "[::1]:7461", "unix:/run/broker"])
def test_a_token_may_go_plainly_within_this_machine(endpoint: str) -> None:
    open_channel(endpoint, ClientSettings(token="t"), []).close()


@pytest.mark.parametrize("endpoint", ["broker:7461", "10.0.0.1:7461", "0.0.0.0:7461", "dns:///localhost.example:7461"])
def test_a_token_goes_to_other_machines_encrypted_or_by_leave(endpoint: str) -> None:
    with pytest.raises(CredentialsUnusable, match="would be sent unencrypted"):
        open_channel(endpoint, ClientSettings(token="t"), [])
    open_channel(endpoint, ClientSettings(token="t", token_without_tls=True), []).close()
    open_channel(endpoint, ClientSettings(token="t", tls=TlsSettings()), []).close()


def test_files_that_are_none_are_named_before_anything_connects(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    own, other = authority.signed("own"), authority.signed("other")
    text, locked = tmp_path / "text", tmp_path / "locked"
    text.write_text("no PEM")
    command = ["openssl", "ec", "-aes128", "-passout", "pass:secret", "-in", str(own.key), "-out", str(locked)]
    subprocess.run(command, check=True, capture_output=True)

    check_files(TlsSettings(str(authority.cert), str(own.cert), str(own.key)))
    for tls, said in (
        (TlsSettings(str(tmp_path / "absent")), "tls_ca_file = .*absent: cannot be read: No such file"),
        (TlsSettings(str(text)), "tls_ca_file = .*text: must be PEM certificates"),
        (TlsSettings("", str(own.cert), str(other.key)), r"tls_cert_file = .*own\.pem: must .*other\.key.*mismatch"),
        (TlsSettings("", str(own.cert), str(locked)), "must have no password"),
        (TlsSettings("", str(text), str(own.key)), "tls_cert_file = .*text: must be PEM"),
    ):
        with pytest.raises(CredentialsUnusable, match=said):
            check_files(tls)


def test_files_that_were_replaced_or_are_gone_have_another_fingerprint(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    tls = TlsSettings(ca_file=str(ca))
    states = [fingerprint(tls)]
    ca.write_text("one")
    states.append(fingerprint(tls))
    (tmp_path / "next").write_text("two")
    (tmp_path / "next").replace(ca)
    states.append(fingerprint(tls))

    assert len(set(states)) == 3
    assert fingerprint(tls) == states[-1]
    assert fingerprint(None) == ()


def test_a_client_warns_once_of_files_that_others_may_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    token.chmod(0o644)
    with caplog.at_level("WARNING"), Client("127.0.0.1:1", settings=ClientSettings(token_file=str(token))) as client:
        for _ in range(3):
            client._channels.of_endpoint("127.0.0.1:1")

    (line,) = [record.getMessage() for record in caplog.records]
    assert "token_file = " in line
    assert "may read it" in line
    assert "secret" not in line.replace(str(token), "")
