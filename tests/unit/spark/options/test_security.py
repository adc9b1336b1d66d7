"""Names become paths in the process that connects, and the token stays where it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.client import ClientSettings, TlsSettings
from forebay.spark.options.credentials import NO_CREDENTIALS, Credentials
from forebay.spark.options.security import secured

PLAIN = ClientSettings(call_timeout_s=3)


def absent(name: str) -> str:
    raise AssertionError("Spark was not asked for this")


def test_without_credentials_nothing_changes() -> None:
    assert secured(PLAIN, NO_CREDENTIALS, {}, locate=absent) == PLAIN


def test_names_are_looked_up_where_spark_has_put_files_and_paths_are_not() -> None:
    names = Credentials(tls=True, ca_file="ca.pem", cert_file="c.pem", key_file="/etc/c.key", token_file="token")

    found = secured(PLAIN, names, {}, locate=lambda name: f"/of/spark/{name}")

    assert found.tls == TlsSettings("/of/spark/ca.pem", "/of/spark/c.pem", "/etc/c.key")
    assert found.token_file == "/of/spark/token"
    assert found.call_timeout_s == 3


def test_a_stream_s_planner_finds_the_files_above_the_folder_that_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").touch()

    def locate(name: str) -> str:
        return str(tmp_path / "streaming_job" / name)

    found = secured(PLAIN, Credentials(tls=True, ca_file="ca.pem"), {}, locate=locate)
    (tmp_path / "streaming_job").mkdir()
    (tmp_path / "streaming_job" / "ca.pem").touch()
    again = secured(PLAIN, Credentials(tls=True, ca_file="ca.pem"), {}, locate=locate)

    assert found.tls == TlsSettings(str(tmp_path / "ca.pem"))
    assert again.tls == TlsSettings(str(tmp_path / "streaming_job" / "ca.pem"))


def test_a_name_stays_one_where_there_is_no_spark() -> None:
    assert secured(PLAIN, Credentials(tls=True, ca_file="ca.pem"), {}, locate=absent).tls == TlsSettings("ca.pem")


@pytest.mark.parametrize(
    ("credentials", "environment", "expected"),
    [
        (NO_CREDENTIALS, {"FOREBAY_TOKEN": "a-secret"}, ("FOREBAY_TOKEN", "")),
        (NO_CREDENTIALS, {"FOREBAY_TOKEN": " "}, ("", "")),
        (Credentials(token_env="MINE"), {"FOREBAY_TOKEN": "a-secret"}, ("MINE", "")),
        (Credentials(token_file="/run/token"), {"FOREBAY_TOKEN": "a-secret"}, ("", "/run/token")),
    ],
)
def test_the_token_is_named_and_not_read(
    credentials: Credentials, environment: dict[str, str], expected: tuple[str, str]
) -> None:
    found = secured(PLAIN, credentials, environment, locate=absent)

    assert (found.token_env, found.token_file) == expected
    assert "a-secret" not in repr(found)
