"""Checks of `compose/fleet/` without a container engine: no test here starts a container."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from forebay.broker.settings import BrokerSettings, load
from forebay.client.transport.endpoint import FLEET

FOLDER: Final = Path(__file__).resolve().parents[2] / "compose" / "fleet"
TEXT: Final = (FOLDER / "compose.yaml").read_text(encoding="utf-8")
DOCUMENT: Final[dict[str, Any]] = yaml.safe_load(TEXT)
SERVICES: Final[dict[str, dict[str, Any]]] = DOCUMENT["services"]
BROKERS: Final = [name for name, service in SERVICES.items() if "FOREBAY_SHARD" in service["environment"]]
HOW_TO: Final = (FOLDER.parents[1] / "docs" / "how-to" / "run-a-fleet.md").read_text(encoding="utf-8")


def environment(service: str) -> dict[str, str]:
    """The environment of a service, with the defaults of its variables."""
    found: dict[str, str] = SERVICES[service]["environment"]
    return {name: re.sub(r"\$\{[A-Z_]+:-([^}]*)\}", r"\1", str(value)) for name, value in found.items()}


def settings_of(broker: str, monkeypatch: pytest.MonkeyPatch) -> BrokerSettings:
    """The settings that a broker reads from its environment and from the command of its image."""
    for name, value in environment(broker).items():
        monkeypatch.setenv(name, value)
    return load(listen="0.0.0.0:7461", allow_anonymous=True)


def test_three_brokers_are_two_shards_of_which_one_has_a_follower(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {broker: settings_of(broker, monkeypatch) for broker in BROKERS}

    assert {name: settings.shard for name, settings in found.items()} == {"a1": "a", "a2": "a", "b1": "b"}
    assert len({settings.journal for settings in found.values()}) == 1
    for name, settings in found.items():
        assert settings.advertise == f"{name}:7461"


def test_the_address_of_the_fleet_names_every_broker() -> None:
    for service in [*BROKERS, "sinks", "publisher"]:
        address = environment(service)["FOREBAY_ENDPOINT"]
        assert address.startswith(FLEET)
        assert address.removeprefix(FLEET).split(",") == [f"{name}:7461" for name in BROKERS]


def test_the_journal_is_in_the_bucket_that_the_bucket_server_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = environment("bucket")
    journal = settings_of("a1", monkeypatch).journal

    assert re.fullmatch(r"s3://journals/fleet\?endpoint=http://bucket:9000&region=[a-z0-9-]+", journal)
    assert "mkdir -p /data/journals " in SERVICES["bucket"]["entrypoint"][-1]
    for broker in BROKERS:
        assert environment(broker)["AWS_ACCESS_KEY_ID"] == bucket["MINIO_ROOT_USER"]
        assert environment(broker)["AWS_SECRET_ACCESS_KEY"] == bucket["MINIO_ROOT_PASSWORD"]
    assert len(bucket["MINIO_ROOT_PASSWORD"]) >= 8, "MinIO refuses a shorter one"


def test_the_image_has_the_extra_for_a_bucket_and_one_service_builds_it() -> None:
    building = [name for name, service in SERVICES.items() if "build" in service]

    assert building == ["a1"]
    assert SERVICES["a1"]["build"]["args"]["BROKER_EXTRAS"] == "object-store"
    assert (FOLDER / SERVICES["a1"]["build"]["context"] / SERVICES["a1"]["build"]["dockerfile"]).is_file()
    for name, service in SERVICES.items():
        if name != "bucket":
            assert (service["image"], service["pull_policy"]) == ("forebay-fleet:${FOREBAY_TAG:-local}", "never")


def test_the_image_of_the_bucket_server_has_a_version() -> None:
    assert re.fullmatch(r"\$\{MINIO_IMAGE:-minio/minio:RELEASE\.[0-9TZ-]+\}", SERVICES["bucket"]["image"])


@pytest.mark.parametrize("broker", BROKERS)
def test_a_broker_has_a_directory_of_its_own_and_a_health_check_that_knows_its_role(broker: str) -> None:
    service = SERVICES[broker]

    assert service["volumes"] == [f"{broker}-data:/data"]
    assert f"{broker}-data" in DOCUMENT["volumes"]
    assert service["healthcheck"]["test"][3:] == ["member", "127.0.0.1:7463", "127.0.0.1:7461"]
    assert service["depends_on"] == {"bucket": {"condition": "service_healthy"}}


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_no_container_can_become_root_or_write_beside_its_volume(name: str) -> None:
    service = SERVICES[name]

    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "ports" not in service, "the network of the containers has no access control"
    if name != "sinks":
        assert {"mem_limit", "cpus"} <= service.keys()


def test_the_sinks_of_the_publisher_are_made_in_both_shards() -> None:
    made = re.findall(r"forebay sink create (\S+) --shard (\S+) --exist-ok", SERVICES["sinks"]["command"][-1])

    assert {shard for _, shard in made} == {"a", "b"}
    assert SERVICES["publisher"]["command"][2:] == [sink for sink, _ in made]
    assert SERVICES["publisher"]["depends_on"] == {"sinks": {"condition": "service_completed_successfully"}}


def test_the_file_that_the_publisher_runs_is_mounted() -> None:
    [volume] = SERVICES["publisher"]["volumes"]
    source, target, mode = volume.split(":")

    assert (FOLDER / source).is_file()
    assert (target, mode) == (SERVICES["publisher"]["command"][1], "ro")


def test_the_guide_names_the_project_because_the_environment_file_of_the_root_names_another() -> None:
    root = (FOLDER.parents[1] / ".env").read_text(encoding="utf-8")
    [other] = re.findall(r"^COMPOSE_PROJECT_NAME=(\S+)$", root, flags=re.MULTILINE)
    exported = re.findall(r"export COMPOSE_FILE=(\S+) COMPOSE_PROJECT_NAME=(\S+)$", HOW_TO + TEXT, flags=re.MULTILINE)
    [(file, name)] = set(exported)

    assert len(exported) == 2
    assert name != other
    assert (FOLDER.parents[1] / file).samefile(FOLDER / "compose.yaml")
    assert "name" not in DOCUMENT, "Compose 1.29 refuses it"
    assert re.findall(r"docker volume rm (\S+)", HOW_TO) == [f"{name}_b1-data"]


def test_the_comment_has_every_variable() -> None:
    comment = TEXT.partition("\nx-common:")[0]
    used = set(re.findall(r"\$\{([A-Z_]+):-", TEXT))

    assert used
    assert set(re.findall(r"\b[A-Z]+_[A-Z_]+\b", comment)) == used | {"COMPOSE_FILE", "COMPOSE_PROJECT_NAME"}


def test_the_how_to_ends_every_part_that_it_names_and_starts_it_again() -> None:
    ended = re.findall(r"^docker compose (?:kill|stop|rm --stop --force) (\w+)", HOW_TO, re.MULTILINE)
    started = re.findall(r"^docker compose (?:start|up --detach) (\w+)", HOW_TO, re.MULTILINE)

    assert {"bucket", "a1", "b1"} <= set(ended) <= set(SERVICES)
    assert set(ended) == set(started)
