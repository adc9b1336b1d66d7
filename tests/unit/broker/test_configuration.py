"""A check of a configuration file reports all of its problems, and starts nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.broker.configuration import allowed_values, check
from forebay.broker.core.settings import SETTINGS
from forebay.broker.settings import BrokerSettings


def problems(folder: Path, text: str) -> dict[str, tuple[str, str]]:
    file = folder / "forebay.toml"
    file.write_text(text)
    return {one.setting: (one.text, one.allowed) for one in check(file)[1]}


def test_a_valid_file_has_no_problem(tmp_path: Path) -> None:
    text = 'drain_s = "5m"\ntail_bytes = "1GiB"\nrealtime = false\n[sink_defaults]\nack_deadline_s = "5m"\n'

    assert problems(tmp_path, text) == {}


def test_every_wrong_setting_is_reported_at_once(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        'listn = "a:1"\ndrain_s = "5 fortnights"\nsinks_max = 0\nstore = "other"\n'
        '[sink_defaults]\npartitons = 2\noverflow = "SOMETIMES"\nmax_attempts = -4\n',
    )

    assert set(found) == {
        *("listn", "drain_s", "sinks_max", "store"),
        *("sink_defaults.partitons", "sink_defaults.overflow", "sink_defaults.max_attempts"),
    }
    assert found["listn"] == ("is no setting", "did you mean listen?")
    assert found["sink_defaults.partitons"] == ("is no setting", "did you mean sink_defaults.partitions?")
    assert found["sinks_max"] == ("is no allowed value", "1 to 1,000,000")
    assert found["sink_defaults.overflow"] == ("is no allowed value", "DROP_OLDEST or REJECT")
    assert "such as 90s" in found["drain_s"][0]


def test_a_setting_of_sinks_outside_of_its_table_is_said_to_belong_there(tmp_path: Path) -> None:
    assert problems(tmp_path, "ack_deadline_s = 5\n") == {
        "ack_deadline_s": ("is no setting", "did you mean sink_defaults.ack_deadline_s?")
    }


@pytest.mark.parametrize(
    ("text", "setting", "said"),
    [
        ('listen = "0.0.0.0:7461"\n', "listen", "allow_anonymous"),
        ('listen = "nowhere"\n', "listen", "must be HOST:PORT"),
        ("backup_interval_s = 60\n", "backup_interval_s", "backup_target"),
        ('tls_server_cert_file = "c"\n', "tls_server_cert_file", "tls_server_key_file"),
        ('token_hashes_file = "/no/such/file"\n', "token_hashes_file", "does not exist"),
        ("listen = \n", "", "is not TOML"),
        ("sink_defaults = 4\n", "sink_defaults", ""),
    ],
)
def test_settings_that_do_not_fit_together_are_reported(tmp_path: Path, text: str, setting: str, said: str) -> None:
    [(found, (problem, _))] = problems(tmp_path, text).items()

    assert found == setting
    assert said in problem


def test_the_environment_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_LISTEN", "nowhere")

    assert problems(tmp_path, "drain_s = 5\n") == {}


def test_every_number_has_its_allowed_values() -> None:
    numbers = [name for name, field in BrokerSettings.model_fields.items() if isinstance(field.default, int | float)]

    assert [name for name in numbers if not allowed_values(name)] == []
    assert [one.name for one in SETTINGS if not allowed_values(f"sink_defaults.{one.public_name}")] == []


@pytest.mark.parametrize(
    ("name", "allowed"), [("tail_bytes", "0 to 16GiB"), ("drain_s", "0 to 5m"), ("sinks_max", "1 to 1,000,000")]
)
def test_allowed_sizes_and_durations_are_as_they_can_be_typed(name: str, allowed: str) -> None:
    assert allowed_values(name) == allowed
