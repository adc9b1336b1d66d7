"""Options name where files and the token stand, and never hold them."""

from __future__ import annotations

import pickle
from collections.abc import Mapping

import pytest

from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.credentials import NO_CREDENTIALS, Credentials
from forebay.spark.options.read import read_options, schema_options
from forebay.spark.options.write import write_options


def found(environment: Mapping[str, str] | None = None, /, **options: str) -> Credentials:
    return write_options({"sink": "a", **options}, environment or {}).target.credentials


def test_nothing_said_is_nothing_needed() -> None:
    assert found() == NO_CREDENTIALS


def test_reads_writes_and_schemas_take_the_same_options() -> None:
    given = {"sink": "a", "tls_ca_file": "ca.pem", "tlsServerName": "broker", "token_env": "MINE"}

    wanted = Credentials(tls=True, ca_file="ca.pem", server_name="broker", token_env="MINE")
    assert write_options(given, {}).target.credentials == wanted
    assert read_options(given, {}).target.credentials == wanted
    assert schema_options(given, {}).target.credentials == wanted


def test_a_file_or_a_name_turns_tls_on_unless_it_is_turned_off() -> None:
    assert found(tls_ca_file="ca.pem").tls
    assert found(tls_server_name="broker").tls
    assert found(tls="true") == Credentials(tls=True)
    assert found(tls="false", tls_ca_file="ca.pem") == NO_CREDENTIALS


def test_the_environment_of_the_driver_says_what_options_do_not() -> None:
    environment = {"FOREBAY_TLS_CA_FILE": "/etc/ca.pem", "FOREBAY_TOKEN_FILE": "/run/token"}

    assert found(environment) == Credentials(tls=True, ca_file="/etc/ca.pem", token_file="/run/token")
    assert found(environment, tls_ca_file="mine.pem", token_env="MINE") == Credentials(
        tls=True, ca_file="mine.pem", token_env="MINE"
    )
    assert found({**environment, "FOREBAY_TLS": "false"}) == Credentials(token_file="/run/token")


def test_the_token_of_the_environment_never_gets_into_the_options() -> None:
    options = write_options({"sink": "a"}, {"FOREBAY_TOKEN": "a-secret", "FOREBAY_TOKEN_FILE": "/run/token"})

    assert options.target.credentials == NO_CREDENTIALS
    assert b"a-secret" not in pickle.dumps(options)
    assert "a-secret" not in repr(options)


@pytest.mark.parametrize("path", ["certs/ca.pem", "./ca.pem", "../ca.pem"])
def test_a_file_is_an_absolute_path_or_a_name_alone(path: str) -> None:
    assert found(tls_ca_file="/etc/ca.pem").ca_file == "/etc/ca.pem"
    with pytest.raises(ForebaySparkError, match="Option tls_ca_file is") as error:
        found(tls_ca_file=path)

    assert "cluster_options" in error.value.remedy


@pytest.mark.parametrize("name", ["tls_key_file", "token_file"])
def test_a_secret_that_should_be_in_a_file_is_refused_and_not_repeated(name: str) -> None:
    with pytest.raises(ForebaySparkError, match="contents of a file") as error:
        found(**{name: "-----BEGIN PRIVATE KEY-----\nsecret"})

    assert "PRIVATE" not in str(error.value)


@pytest.mark.parametrize("name", ["token", "accessToken", "bearer_token", "authorization", "password", "tls_key"])
def test_an_option_that_would_hold_a_secret_is_refused_and_not_repeated(name: str) -> None:
    for read in (write_options, read_options):
        with pytest.raises(ForebaySparkError, match=f"Option {name} would expose a secret") as error:
            read({"sink": "a", name: "a-secret"}, {})

        assert "a-secret" not in str(error.value)
        assert "token_env" in error.value.remedy


def test_a_token_in_the_place_of_a_variable_s_name_is_refused_and_not_repeated() -> None:
    with pytest.raises(ForebaySparkError, match="token_env is not the name") as error:
        found(token_env="9f-a-secret")

    assert "a-secret" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tls_cert_file": "c.pem"}, "Only one of the options"),
        ({"tls_key_file": "c.key"}, "Only one of the options"),
        ({"token_env": "MINE", "token_file": "token"}, "Both token_env and token_file"),
        ({"tls": "perhaps"}, "Option tls is 'perhaps'"),
    ],
)
def test_incompatible_and_invalid_options_are_reported(options: dict[str, str], said: str) -> None:
    with pytest.raises(ForebaySparkError, match=said):
        found(**options)


def test_a_wrong_variable_is_named() -> None:
    with pytest.raises(ForebaySparkError, match="environment variable FOREBAY_TLS is 'perhaps'"):
        found({"FOREBAY_TLS": "perhaps"})
