"""Options before the command win over the environment, and the environment over nothing."""

from __future__ import annotations

import pytest

from forebay.cli.security import client_settings, set_options
from forebay.client import ClientSettings, TlsSettings
from forebay.client.settings import ENVIRONMENT
from forebay.errors.reasons import Reason
from tests.support.refusals import failure


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ENVIRONMENT.values():
        monkeypatch.delenv(name, raising=False)
    set_options({})


def test_nothing_said_is_a_plain_client() -> None:
    assert client_settings() == ClientSettings()


def test_an_option_wins_over_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_TLS_CA_FILE", "theirs.pem")
    monkeypatch.setenv("FOREBAY_TLS_SERVER_NAME", "broker")
    set_options({"FOREBAY_TLS_CA_FILE": "mine.pem", "FOREBAY_TLS_SERVER_NAME": None})

    assert client_settings().tls == TlsSettings("mine.pem", server_name="broker")


def test_a_token_file_that_is_named_wins_over_the_token_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_TOKEN", "a-secret")
    assert client_settings().token_env == "FOREBAY_TOKEN"
    set_options({"FOREBAY_TOKEN_FILE": "/run/token"})

    assert (client_settings().token_env, client_settings().token_file) == ("", "/run/token")


def test_tls_turned_off_by_an_option_ignores_the_ca_file_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_TLS_CA_FILE", "theirs.pem")
    set_options({"FOREBAY_TLS": False, "FOREBAY_TOKEN_WITHOUT_TLS": True})

    assert client_settings() == ClientSettings(token_without_tls=True)


def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_TLS", "perhaps")

    with failure(Reason.INVALID_SETTING, match="FOREBAY_TLS"):
        client_settings()
