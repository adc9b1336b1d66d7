"""Options and credentials of position stores."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from forebay.client import InvalidArgument
from forebay.client.errors import PositionStoreError
from forebay.client.positions.options import Credentials, options_of


@dataclass(frozen=True, slots=True)
class Some:
    table: str = "positions"
    create: bool = True
    tries: int = 3
    share: float = 0.5


def test_options_are_read_by_their_types_and_the_others_have_their_defaults() -> None:
    found = options_of(Some, urlsplit("x://host/path?table=a%20b&create=false&tries=5"))

    assert found == Some("a b", create=False, tries=5, share=0.5)


def test_an_unknown_option_is_refused_with_those_that_are_known_and_without_its_value() -> None:
    with pytest.raises(InvalidArgument, match="must be one of create, share, table, tries") as refused:
        options_of(Some, urlsplit("x://host/path?password=abc-def"))

    assert "abc-def" not in f"{refused.value} {refused.value.facts}"


@pytest.mark.parametrize(
    ("query", "allowed"), [("create=yes", "true or false"), ("tries=x", "an integer"), ("share=x", "a number")]
)
def test_a_value_of_another_type_is_refused(query: str, allowed: str) -> None:
    with pytest.raises(InvalidArgument, match=f"must be {allowed}"):
        options_of(Some, urlsplit(f"x://host/path?{query}"))


def test_credentials_come_from_the_environment_and_a_file_wins(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("# of the store\n\nSTORE_KEY = abc=def \n")
    environment = {"STORE_KEY": "old", "STORE_USER": "billing", "EMPTY": ""}

    found = Credentials(str(tmp_path / "secret"), environment)

    assert found.some({"key": "STORE_KEY", "user": "STORE_USER", "none": "NONE", "empty": "EMPTY"}) == {
        "key": "abc=def",
        "user": "billing",
    }
    assert found.get("EMPTY") is None


def test_the_text_of_credentials_shows_none_of_them() -> None:
    found = Credentials(environment={"STORE_KEY": "abc-def"})

    assert "abc-def" not in f"{found} {found!r}"


def test_a_credentials_file_that_is_missing_or_has_another_form_is_an_error_without_its_content(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("abc-def\n")

    with pytest.raises(PositionStoreError, match="line 1 of the credentials file") as refused:
        Credentials(str(tmp_path / "secret"))
    with pytest.raises(PositionStoreError, match="cannot be read: FileNotFoundError"):
        Credentials(str(tmp_path / "missing"))

    assert "abc-def" not in str(refused.value)


def test_a_credentials_file_that_others_can_read_is_reported_without_its_content(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("STORE_KEY=abc-def\n")
    for mode in (0o600, 0o644):
        secret.chmod(mode)
        Credentials(str(secret))

    assert [record.getMessage().partition(";")[0] for record in caplog.records] == [
        f"credentials need attention: credentials_file = {secret}: other accounts may read it (mode 0644)"
    ]
