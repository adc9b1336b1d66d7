"""A token is shown once; the file knows its hash and rights, belongs to its owner, and keeps what was there."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from forebay.broker.core.access.credentials import parse, proof_of
from forebay.cli import run
from forebay.cli.exits import ExitCode
from tests.support.terminal.answers import BusyTerminal, Terminal

ALLOW = ["--allow", "publish=orders,events-*", "--allow", "view=*"]


def made(name: str, path: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    command = ["token", "create", name, "--token-hashes-file", str(path), "-o", "json", *(words or ALLOW)]
    assert run(command) == ExitCode.OK
    shown = json.loads(capsys.readouterr().out)
    assert shown["name"] == name
    return str(shown.get("token"))


def listed(path: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert run(["token", "list", "--token-hashes-file", str(path), "-o", "json"]) == ExitCode.OK
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, list)
    return found


def principal(path: Path, token: str) -> str | None:
    found = parse(path.read_text()).principal_of(proof_of(token))
    return None if found is None else found.name


def test_the_broker_accepts_what_was_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tokens"

    one, other = made("spark", path, capsys), made("deliverer", path, capsys)

    assert (principal(path, one), principal(path, other)) == ("spark", "deliverer")
    assert one not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_table_shows_limits_with_units(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tokens"
    words = ["token", "create", "spark", "--token-hashes-file", str(path), *ALLOW]
    assert run([*words, "--bytes-per-s", "10MB", "--calls-per-s", "5000"]) == ExitCode.OK
    capsys.readouterr()

    assert run(["token", "list", "--token-hashes-file", str(path)]) == ExitCode.OK

    assert "calls_per_s=5000 bytes_per_s=10MB" in capsys.readouterr().out


def test_a_list_shows_rights_and_limits_and_no_more_than_the_begin_of_a_hash(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tokens"
    made("spark", path, capsys, *ALLOW, "--calls-per-s", "9")
    made("edge", path, capsys, "--allow", "publish=plant", "--certificate", "edge-1")

    spark, edge = listed(path, capsys)

    assert spark["rights"] == "publish=orders,events-* view=*"
    assert spark["limits"] == "calls_per_s=9"
    assert len(spark["credential"]) == 8
    assert (edge["kind"], edge["credential"], edge["rights"]) == ("certificate", "edge-1", "publish=plant")
    assert run(["token", "list", "--token-hashes-file", str(path)]) == ExitCode.OK
    assert "events-*" in capsys.readouterr().out


def test_a_revoked_principal_is_gone_and_everything_else_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tokens"
    path.write_text("# who may call\n")
    path.chmod(0o640)
    old, kept = made("spark", path, capsys), made("deliverer", path, capsys)

    assert run(["token", "revoke", "spark", "--yes", "--token-hashes-file", str(path)]) == ExitCode.OK

    assert (principal(path, old), principal(path, kept)) == (None, "deliverer")
    assert path.read_text().startswith("# who may call\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_one_of_two_credentials_can_be_revoked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tokens"
    old, new = made("spark", path, capsys), made("spark", path, capsys)
    path.write_text(path.read_text().replace("sha256:a", "sha256:A"))  # written by hand in capitals
    first = listed(path, capsys)[0]["credential"]

    words = ["token", "revoke", "spark", "--yes", "--token-hashes-file", str(path), "--credential", first]
    assert run([*words, "-o", "json"]) == ExitCode.OK

    assert (principal(path, old), principal(path, new)) == (None, "spark")


@pytest.fixture
def two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A file with a credential of ``spark`` and one of ``deliverer``."""
    path = tmp_path / "tokens"
    made("spark", path, capsys)
    made("deliverer", path, capsys)
    return path


def test_without_a_terminal_nothing_is_revoked_unless_it_is_confirmed(
    two: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = two.read_text()
    words = ["token", "revoke", "spark", "--token-hashes-file", str(two)]

    assert run(words) == ExitCode.USAGE
    assert "--yes" in capsys.readouterr().err
    assert run([*words, "-o", "json"]) == ExitCode.USAGE
    assert json.loads(capsys.readouterr().err)["reason"] == "NOT_CONFIRMED"
    assert two.read_text() == before


def test_a_dry_run_names_what_would_be_revoked(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = two.read_text()
    words = ["token", "revoke", "spark", "--dry-run", "--token-hashes-file", str(two)]

    assert run(words) == ExitCode.OK
    assert capsys.readouterr().out == "would revoke 1 credential of spark; nothing was changed\n"
    assert run([*words, "-o", "json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["credentials"][0]["kind"] == "token"
    assert two.read_text() == before


def test_a_dry_run_for_the_last_credential_is_refused_as_the_call_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tokens"
    made("spark", path, capsys)

    assert run(["token", "revoke", "spark", "--dry-run", "--token-hashes-file", str(path)]) == ExitCode.FAILED
    assert "create another one first" in capsys.readouterr().err


def test_a_credential_that_is_created_while_it_asks_is_kept(
    two: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", BusyTerminal(lambda: made("nightly", two, capsys)))
    monkeypatch.setattr("sys.stderr", asked := Terminal())

    assert run(["token", "revoke", "spark", "--token-hashes-file", str(two)]) == ExitCode.OK

    assert "This will revoke 1 credential of spark. Continue? [y/N]" in asked.getvalue()
    assert [one["name"] for one in listed(two, capsys)] == ["deliverer", "nightly"]


@pytest.mark.parametrize("space", ["\t", "  ", "\u00a0"])
def test_a_credential_is_revoked_whatever_space_is_after_its_hash(
    space: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tokens"
    old, kept = made("spark", path, capsys), made("deliverer", path, capsys)
    path.write_text(path.read_text().replace(" ", space))
    assert principal(path, old) == "spark"

    assert run(["token", "revoke", "spark", "--yes", "--token-hashes-file", str(path)]) == ExitCode.OK

    assert (principal(path, old), principal(path, kept)) == (None, "deliverer")


def test_the_last_credential_is_not_revoked_since_no_broker_would_take_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tokens"
    token = made("spark", path, capsys)

    assert run(["token", "revoke", "spark", "--yes", "--token-hashes-file", str(path)]) == ExitCode.FAILED

    assert "create another one first" in capsys.readouterr().err
    assert principal(path, token) == "spark"


def test_a_principal_that_is_not_there_is_not_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tokens"
    made("spark", path, capsys)

    assert run(["token", "revoke", "stranger", "--token-hashes-file", str(path)]) == ExitCode.NOT_FOUND
    assert run(["token", "list", "--token-hashes-file", str(tmp_path / "absent")]) == ExitCode.NOT_FOUND


def test_a_file_whose_last_line_has_no_end_keeps_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tokens"
    first = made("spark", path, capsys)
    path.write_text(path.read_text().rstrip("\n"))

    second = made("spark", path, capsys)

    assert (principal(path, first), principal(path, second)) == ("spark", "spark")


def test_people_see_the_token_alone_on_standard_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tokens"

    assert run(["token", "create", "spark", "--token-hashes-file", str(path), *ALLOW]) == ExitCode.OK

    shown = capsys.readouterr()
    assert principal(path, shown.out.removesuffix("\n")) == "spark"
    assert "shown only once" in shown.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["two words", *ALLOW], "the name 'two words'"),
        (["spark", "--allow", "write=orders"], "'write' is not a right"),
        (["spark", "--allow", "publish=ParentInput"], "'ParentInput' is not a pattern"),
    ],
)
def test_an_invalid_credential_is_refused_and_nothing_is_written(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tokens"

    assert run(["token", "create", *words, "--token-hashes-file", str(path)]) == ExitCode.USAGE

    assert said in capsys.readouterr().err
    assert not path.exists()


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["token", "create", "spark", "--token-hashes-file", str(tmp_path), *ALLOW]) == ExitCode.FAILED
    assert "cannot be written" in capsys.readouterr().err
