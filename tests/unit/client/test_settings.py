"""TLS and token as values: from the environment, and never shown or pickled with the token itself."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from forebay.client import ClientSettings, CredentialsUnusable, TlsSettings
from forebay.client.settings import ENVIRONMENT
from forebay.errors.reasons import Reason
from tests.support.refusals import failure


def test_an_empty_environment_says_nothing() -> None:
    assert ClientSettings.from_environment({}) == ClientSettings()
    assert ClientSettings.from_environment(dict.fromkeys(ENVIRONMENT.values(), "")) == ClientSettings()


def test_a_file_or_a_name_turns_tls_on_unless_it_is_turned_off() -> None:
    files = {"FOREBAY_TLS_CA_FILE": "ca.pem", "FOREBAY_TLS_CERT_FILE": "c.pem", "FOREBAY_TLS_KEY_FILE": "c.key"}

    assert ClientSettings.from_environment(files).tls == TlsSettings("ca.pem", "c.pem", "c.key")
    assert ClientSettings.from_environment({"FOREBAY_TLS_SERVER_NAME": "b"}).tls == TlsSettings(server_name="b")
    assert ClientSettings.from_environment({"FOREBAY_TLS": "true"}).tls == TlsSettings()
    assert ClientSettings.from_environment({**files, "FOREBAY_TLS": "false"}).tls is None


def test_the_token_of_the_environment_is_named_and_not_held() -> None:
    settings = ClientSettings.from_environment({"FOREBAY_TOKEN": "a-secret", "FOREBAY_TOKEN_FILE": "/run/token"})

    assert (settings.token, settings.token_env, settings.token_file) == ("", "FOREBAY_TOKEN", "")
    assert ClientSettings.from_environment({"FOREBAY_TOKEN_FILE": "/run/token"}).token_file == "/run/token"
    assert b"a-secret" not in pickle.dumps(settings)


def test_a_token_is_not_shown() -> None:
    assert "a-secret" not in repr(ClientSettings(token="a-secret"))


def test_settings_travel_between_processes_but_for_those_that_hold_a_token() -> None:
    settings = ClientSettings(tls=TlsSettings("ca.pem"), token_env="MINE", call_timeout_s=3)

    assert pickle.loads(pickle.dumps(settings)) == settings
    with pytest.raises(CredentialsUnusable, match="token_env or token_file") as caught:
        pickle.dumps(replace(settings, token="a-secret", token_env=""))
    assert "a-secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["FOREBAY_TLS", "FOREBAY_TOKEN_WITHOUT_TLS"])
def test_a_wrong_variable_is_named(name: str) -> None:
    with failure(Reason.INVALID_SETTING, match=f"{name} = perhaps"):
        ClientSettings.from_environment({name: "perhaps"})


def test_the_token_is_in_one_place() -> None:
    with failure(Reason.INVALID_SETTING, match="token and token_env are set: set only one of them"):
        ClientSettings(token="a", token_env="B")


def test_a_certificate_and_its_key_belong_together() -> None:
    with failure(Reason.INVALID_SETTING, match=r"tls\.key_file"):
        TlsSettings(cert_file="c.pem")
    with failure(Reason.INVALID_SETTING, match=r"tls\.cert_file"):
        TlsSettings(key_file="c.key")
