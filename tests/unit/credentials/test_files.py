"""Warnings about files of certificates and secrets name the setting and the remedy."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from forebay.credentials import Account, CredentialFile, Kind, warnings_of
from tests.support.certificates import Authority

NOW = datetime.now(UTC)


def said(path: Path, kind: Kind, now: datetime = NOW) -> str:
    return "\n".join(warnings_of([CredentialFile("tls_file", str(path), kind)], now))


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (timedelta(hours=1), ""),
        (timedelta(days=1), ""),
        (timedelta(days=1, hours=12), "the certificate expires on"),
        (timedelta(days=3), "the certificate has expired on"),
        (timedelta(days=-2), "is not valid before"),
    ],
)
def test_a_certificate_is_reported_in_the_last_third_of_its_life_and_after_it(
    after: timedelta, words: str, tmp_path: Path
) -> None:
    found = said(Authority(tmp_path).signed("broker").cert, Kind.CERTIFICATES, NOW + after)

    assert bool(found) is bool(words)
    assert words in found
    assert not found or "tls_file = " in found


def test_each_certificate_of_a_chain_is_reported_by_its_number(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    chain = tmp_path / "chain.pem"
    chain.write_text(authority.signed("broker").cert.read_text() + authority.cert.read_text())

    found = said(chain, Kind.CERTIFICATES, NOW + timedelta(days=4))

    assert "certificate 1 of 2 has expired" in found
    assert "certificate 2 of 2 has expired" in found


@pytest.mark.parametrize(
    ("kind", "mode", "words"),
    [
        (Kind.SECRET, 0o600, []),
        (Kind.SECRET, 0o400, []),
        (Kind.SECRET, 0o640, ["may read it (mode 0640)"]),
        (Kind.SECRET, 0o604, ["may read it"]),
        (Kind.SECRET, 0o622, ["may change it (mode 0622)"]),
        (Kind.SECRET, 0o666, ["may change it", "may read it"]),
        (Kind.TRUST, 0o644, []),
        (Kind.TRUST, 0o664, []),
        (Kind.TRUST, 0o646, ["may change it"]),
        (Kind.CERTIFICATES, 0o666, ["may change it"]),
    ],
)
def test_rights_of_other_accounts_are_reported(kind: Kind, mode: int, words: list[str], tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("content")
    file.chmod(mode)

    found = said(file, kind).splitlines()

    assert len(found) == len(words)
    assert all(word in line for word, line in zip(words, found, strict=True))


@pytest.mark.parametrize(
    ("mode", "owner", "group", "words"),
    [
        (0o440, 0, 10001, []),
        (0o640, 0, 10001, []),
        (0o440, 0, 10002, ["may read it (mode 0440)"]),  # of a group that the process is not in
        (0o440, 10001, 10001, ["may read it"]),  # of the process itself, which can change it
        (0o440, 10003, 10001, ["may read it"]),
        (0o444, 0, 10001, ["may read it"]),
        (0o660, 0, 10001, ["may change it"]),
    ],
)
def test_a_file_of_root_for_the_group_of_the_process_is_in_order(
    mode: int, owner: int, group: int, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("content")
    file.chmod(mode)
    actual = Path.stat

    def owned(path: Path) -> os.stat_result:
        found = actual(path)
        numbers = (*found[:4], owner, group, *found[6:])
        return os.stat_result(numbers) if path == file else found

    monkeypatch.setattr(Path, "stat", owned)
    account = Account(10001, frozenset({10001}))
    found = warnings_of([CredentialFile("tls_server_key_file", str(file), Kind.SECRET)], NOW, account=account)

    assert len(found) == len(words)
    assert all(word in line for word, line in zip(words, found, strict=True))


def test_root_itself_is_no_member_of_a_group_that_reads_its_files(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("content")

    assert not Account(0, frozenset({file.stat().st_gid})).reads_by_group(file.stat())


def test_a_directory_that_every_account_may_change_is_reported_unless_files_in_it_are_safe(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    file = folder / "key"
    file.touch()
    file.chmod(0o600)
    folder.chmod(0o777)
    assert "every account may replace it" in said(file, Kind.SECRET)
    folder.chmod(0o1777)
    assert said(file, Kind.SECRET) == ""


def test_a_missing_file_and_a_text_that_is_no_certificate_give_no_warning(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----")

    assert said(tmp_path / "missing", Kind.SECRET) == ""
    assert said(tmp_path / "text", Kind.CERTIFICATES) == ""
    assert warnings_of([CredentialFile("x", "", Kind.SECRET)], NOW) == ()
