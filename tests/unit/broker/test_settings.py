from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forebay.broker.core.settings import DEFAULTS, SECOND_US, SETTINGS, Overflow
from forebay.broker.settings import BrokerSettings, SettingsError, address, load


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only what a test sets is set."""
    for name in BrokerSettings.model_fields:
        monkeypatch.delenv(f"FOREBAY_{name.upper()}", raising=False)
    monkeypatch.chdir(tmp_path)


def filed(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "broker.toml"
    path.write_text(text)
    return path


def test_without_anything_given_the_defaults_hold() -> None:
    settings = load()

    assert (settings.listen, settings.data_dir) == ("127.0.0.1:7461", Path("forebay-data"))
    assert settings.sink_defaults == DEFAULTS


def test_arguments_override_the_environment_and_the_environment_overrides_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = filed(tmp_path, "sinks_max = 1\nstreams_max = 1\npartitions_max = 1\n")
    monkeypatch.setenv("FOREBAY_STREAMS_MAX", "2")
    monkeypatch.setenv("FOREBAY_PARTITIONS_MAX", "2")

    settings = load(path, partitions_max=3)

    assert (settings.sinks_max, settings.streams_max, settings.partitions_max) == (1, 2, 3)


def test_none_means_not_given(tmp_path: Path) -> None:
    assert load(filed(tmp_path, "sinks_max = 5"), sinks_max=None).sinks_max == 5


def test_sink_defaults_are_merged_setting_by_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = filed(tmp_path, '[sink_defaults]\npartitions = 4\noverflow = "DROP_OLDEST"\nack_deadline_s = 2.5\n')
    monkeypatch.setenv("FOREBAY_SINK_DEFAULTS__REALTIME", "false")
    monkeypatch.setenv("FOREBAY_SINK_DEFAULTS__PARTITIONS", "8")

    core = load(path).sink_defaults

    assert (core.partitions, core.realtime) == (8, False)
    assert (core.overflow, core.ack_deadline_us) == (Overflow.DROP_OLDEST, 2_500_000)


def test_no_file_is_read_unasked(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("FOREBAY_SINKS_MAX=5\n")
    (tmp_path / "forebay.toml").write_text("sinks_max = 5\n")

    assert load().sinks_max == 10_000


def test_variables_of_other_parts_are_none_of_the_brokers_business(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_ENDPOINT", "localhost:1")

    assert load() == BrokerSettings()


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"sinks_max": 0}, "sinks_max"),
        ({"data_dir": ""}, "data_dir = '': must name a directory"),
        ({"sinks_max": "many"}, "sinks_max"),
        ({"record_bytes_max": (8 << 20) + 1}, "record_bytes_max"),
        ({"waiting_bytes_max": 1}, "waiting_bytes_max"),
        ({"drain_s": -1}, "drain_s"),
        ({"drain_s": float("nan")}, "drain_s"),
        ({"nothing_like_it": 1}, "nothing_like_it"),
        ({"sink_defaults": {"partitions": "many"}}, "sink_defaults.partitions"),
        ({"sink_defaults": {"partitions": 0}}, "partitions"),
        ({"sink_defaults": {"nothing_like_it": 0}}, "sink_defaults.nothing_like_it"),
        ({"sink_defaults": {"overflow": "BLOCK"}}, "overflow"),
        (
            {"sink_defaults": {"retry_backoff_min_s": 60.0}},
            "retry_backoff_max = 30 s: must be at least retry_backoff_min = 1 m",
        ),
        ({"sink_defaults": {"ack_deadline_s": float("inf")}}, "sink_defaults.ack_deadline_s"),
        ({"sink_defaults": {"ack_deadline_s": float("nan")}}, "sink_defaults.ack_deadline_s"),
        ({"sink_defaults": {"max_age_s": 4e-7}}, "max_age = 4e-07: must be 0"),
        ({"sink_defaults": 5}, "sink_defaults"),
        ({"max_broker_bytes": True}, "max_broker_bytes = True: must be a number"),
        ({"drain_s": True}, "drain_s = True: must be a number"),
        ({"backup_interval_s": False}, "backup_interval_s = False: must be a number"),
        ({"sink_defaults": {"partitions": True}}, "sink_defaults.partitions = True: must be a number"),
        ({"sink_defaults": {"ack_deadline_s": True}}, "sink_defaults.ack_deadline_s = True: must be a number"),
        ({"max_broker_bytes": "0.0001kB"}, "max_broker_bytes = '0.0001kB': is less than one byte"),
        ({"listen": "localhost"}, "listen"),
        ({"listen": "localhost:70000"}, "listen"),
        ({"listen": ":7461"}, "listen"),
        ({"listen": "localhost:\u00b2"}, "listen"),
        ({"listen": "localhost:" + "9" * 5_000}, "listen"),
        ({"metrics_listen": "nowhere"}, "metrics_listen"),
        ({"metrics_listen": "0.0.0.0:7463"}, "metrics_allow_anonymous = true"),
        ({"metrics_listen": "[::]:7463", "token_hashes_file": "t"}, "every caller of that network could read names"),
        ({"console_listen": "nowhere"}, "console_listen"),
        ({"console_listen": "0.0.0.0:7462"}, "every browser of that network could see every sink"),
        ({"console_listen": "broker:7462", "token_hashes_file": "t"}, "console_listen = 'broker:7462' opens"),
        ({"tls_server_cert_file": "c.pem"}, "is of no use without tls_server_key_file"),
        ({"tls_server_key_file": "c.key"}, "is of no use without tls_server_cert_file"),
        ({"tls_client_ca_file": "ca.pem"}, "is of no use without tls_server_cert_file"),
        ({"token_hashes_file": "t", "listen": "0.0.0.0:7461"}, "tokens_without_tls = true"),
        ({"listen": "0.0.0.0:7461"}, "allow_anonymous = true"),
        ({"listen": "10.0.0.5:1", "tls_server_cert_file": "c", "tls_server_key_file": "k"}, "allow_anonymous = true"),
        ({"token_hashes_file": "t", "listen": "broker:7461"}, "tokens would go unencrypted"),
    ],
)
def test_a_wrong_setting_is_named(given: dict[str, Any], name: str) -> None:
    with pytest.raises(SettingsError, match=name):
        load(**given)


@pytest.mark.parametrize("text", ["sinks_max = 0", "sink_defaults = 5", "[sink_defaults]\npartitions = 0", "nonsense"])
def test_a_wrong_file_is_reported(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError):
        load(filed(tmp_path, text))


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"absent\.toml"):
        load(tmp_path / "absent.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError):
        load(tmp_path / "binary.toml")


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("SINK_DEFAULTS__PARTITIONS", "many", r"sink_defaults\.partitions = 'many': "),
        ("SINK_DEFAULTS__COLOUR", "red", r"sink_defaults\.colour: unknown setting"),
        ("SINK_DEFAULTS", "no JSON", "sink_defaults"),
        ("SINKS_MAX", "0", "sinks_max = '0': "),
    ],
)
def test_a_wrong_variable_is_named(name: str, value: str, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"FOREBAY_{name}", value)

    with pytest.raises(SettingsError, match=problem):
        load()


def test_the_defaults_of_sinks_are_given_as_one_variable_or_setting_by_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_SINK_DEFAULTS", '{"partitions": 4, "ack_deadline_s": 0.57}')
    monkeypatch.setenv("FOREBAY_SINK_DEFAULTS__OVERFLOW", "DROP_OLDEST")

    expected = replace(DEFAULTS, partitions=4, ack_deadline_us=570_000, overflow=Overflow.DROP_OLDEST)
    assert load().sink_defaults == expected


@pytest.mark.parametrize(
    ("text", "found"),
    [("127.0.0.1:0", ("127.0.0.1", 0)), ("broker:65535", ("broker", 65_535)), ("[::1]:7461", ("[::1]", 7461))],
)
def test_an_address_is_a_host_and_a_port(text: str, found: tuple[str, int]) -> None:
    assert address(text) == found


@pytest.mark.parametrize(
    "given",
    [
        {"listen": "127.0.0.1:7461"},
        {"listen": "localhost:7461"},
        {"listen": "[::1]:7461"},
        {"listen": "0.0.0.0:7461", "tokens_without_tls": True},
        {"listen": "0.0.0.0:7461", "tls_server_cert_file": "c.pem", "tls_server_key_file": "c.key"},
    ],
)
def test_tokens_need_tls_wherever_others_could_listen_unless_the_setting_allows_it(given: dict[str, Any]) -> None:
    assert load(token_hashes_file="tokens", **given).token_hashes_file == "tokens"


@pytest.mark.parametrize(
    "given",
    [
        {"listen": "127.0.0.1:7461"},
        {"listen": "0.0.0.0:7461", "allow_anonymous": True},
        {"listen": "0.0.0.0:7461", "token_hashes_file": "t", "tokens_without_tls": True},
        {
            "listen": "0.0.0.0:7461",
            "tls_server_cert_file": "c",
            "tls_server_key_file": "k",
            "tls_client_ca_file": "a",
        },
    ],
)
def test_a_network_is_listened_to_with_access_control_or_by_an_explicit_setting(given: dict[str, Any]) -> None:
    assert load(**given).listen == given["listen"]


@pytest.mark.parametrize(
    "given",
    [
        {"metrics_listen": "127.0.0.1:7463"},
        {"metrics_listen": "[::1]:7463"},
        {"metrics_listen": "0.0.0.0:7463", "metrics_allow_anonymous": True, "token_hashes_file": "t"},
        {"metrics_listen": "0.0.0.0:7463", "allow_anonymous": True},
    ],
)
def test_metrics_are_served_to_a_network_only_by_an_explicit_setting(given: dict[str, Any]) -> None:
    assert load(**given).metrics_listen == given["metrics_listen"]


def test_variables_of_clients_are_not_those_of_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TLS", "TLS_CA_FILE", "TLS_CERT_FILE", "TLS_KEY_FILE", "TOKEN", "TOKEN_FILE"):
        monkeypatch.setenv(f"FOREBAY_{name}", "somewhere")

    assert load() == BrokerSettings()


def test_the_file_of_all_defaults_changes_nothing(tmp_path: Path) -> None:
    """Every setting can be set in a file under its own name."""
    lines = [f"{name} = {value!r}" for name, value in _plain(BrokerSettings().model_dump(exclude={"sink_defaults"}))]
    lines += ["[sink_defaults]"]
    for setting in SETTINGS:
        value = setting.default / SECOND_US if setting.is_duration else setting.default
        lines.append(f"{setting.public_name} = {value.name if setting.choices else value!r}")
    text = "\n".join(lines).replace("True", "true").replace("False", "false")

    assert tomllib.loads(text)
    assert load(filed(tmp_path, text)) == BrokerSettings()


def _plain(values: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(name, str(value) if isinstance(value, Path) else value) for name, value in values.items()]


def test_sizes_and_durations_may_have_units_wherever_a_setting_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "forebay.toml"
    file.write_text('tail_bytes = "1MiB"\n[sink_defaults]\nmax_total_bytes = "10GB"\nmax_age_s = "7d"\n')
    monkeypatch.setenv("FOREBAY_DRAIN_S", "2m")

    settings = load(file, disk_reserve_bytes="1GB", sink_defaults={"ack_deadline_s": "1m 30s"})

    assert (settings.tail_bytes, settings.drain_s, settings.disk_reserve_bytes) == (1 << 20, 120, 10**9)
    assert settings.sink_defaults.max_total_bytes == 10 * 10**9
    assert (settings.sink_defaults.max_age_us, settings.sink_defaults.ack_deadline_us) == (604_800 * 10**6, 90 * 10**6)
    with pytest.raises(SettingsError, match=r"^sink_defaults\.max_age_s = 'a year': must be a number, or numbers with"):
        load(sink_defaults={"max_age_s": "a year"})


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"shard": "a"}, "shard = 'a': is of no use without journal"),
        ({"shard": "A", "journal": "/j"}, "shard = 'A': must be 1 to 63 of a-z, 0-9 and -"),
        ({"shard": "-a", "journal": "/j"}, "must be 1 to 63"),
        ({"shard": "a/b", "journal": "/j"}, "must be 1 to 63"),
        ({"shard": "x" * 64, "journal": "/j"}, "must be 1 to 63"),
        ({"shard": "a", "journal": "/j", "listen": "0.0.0.0:7461", "allow_anonymous": True}, "needs advertise"),
        ({"shard": "a", "journal": "/j", "listen": "[::]:7461", "allow_anonymous": True}, "needs advertise"),
        ({"shard": "a", "advertise": "host", "journal": "/j"}, "advertise = 'host': must be HOST:PORT"),
    ],
)
def test_a_shard_that_clients_could_not_find_is_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        load(**given)


def test_a_shard_at_every_address_advertises_one() -> None:
    found = load(shard="a", journal="/j", listen="0.0.0.0:7461", advertise="a.example:7461", allow_anonymous=True)

    assert (found.shard, found.advertise) == ("a", "a.example:7461")
