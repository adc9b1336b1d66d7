"""The Helm chart: what it renders is valid for Kubernetes, and the broker accepts the settings in it."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any, Final

import kubernetes_validate  # type: ignore[import-not-found,unused-ignore] # installed by make test-deploy only
import pytest
import yaml

from forebay.broker.settings import BrokerSettings, load
from tests.deploy.conftest import CHART, helm, one, rendered

CASES: Final = sorted((CHART / "ci").glob("*-values.yaml"))
NAMES: Final = [case.stem.removesuffix("-values") for case in CASES]
KUBERNETES: Final = ("1.27", "1.30", "1.34")
"""Versions whose schemas the manifests are checked against: the chart's oldest one, and two newer ones."""


def settings_of(manifests: list[dict[str, Any]]) -> str:
    """Return the content of the rendered broker.toml."""
    text: str = one(manifests, "ConfigMap")["data"]["broker.toml"]
    return text


def loaded(text: str, folder: Path) -> BrokerSettings:
    """Return the settings that a broker reads from a broker.toml."""
    file = folder / "broker.toml"
    file.write_text(text, encoding="utf-8")
    return load(file, from_environment=False)


def services(manifests: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the specification of each Service by its name."""
    return {each["metadata"]["name"]: each["spec"] for each in manifests if each["kind"] == "Service"}


def sets_of(manifests: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the specification of each StatefulSet by its name: one, or one for each shard."""
    return {each["metadata"]["name"]: each["spec"] for each in manifests if each["kind"] == "StatefulSet"}


def pods_of(manifests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the specification of the pods of each StatefulSet."""
    return [each["template"]["spec"] for each in sets_of(manifests).values()]


def refusal(tmp_path: Path, values: dict[str, Any]) -> str:
    """Return the error of Helm for values that the chart refuses."""
    file = tmp_path / "values.yaml"
    file.write_text(json.dumps(values), encoding="utf-8")
    done = helm("template", "events", CHART, "--values", file)
    assert done.returncode != 0
    return done.stderr


def test_every_case_is_there() -> None:
    assert NAMES == ["anonymous", "fleet", "mtls", "secret", "shard", "tokens"]


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_the_chart_has_no_finding_of_the_linter(case: Path) -> None:
    done = helm("lint", "--strict", "--values", case, CHART)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_every_manifest_is_valid_for_kubernetes(case: Path, version: str) -> None:
    manifests = rendered(case)

    assert {"ConfigMap", "Service", "StatefulSet"} <= {each["kind"] for each in manifests}
    for manifest in manifests:
        kubernetes_validate.validate(manifest, version, strict=True)


def test_an_unknown_field_of_a_manifest_is_found() -> None:
    manifest = one(rendered(CASES[0]), "StatefulSet")
    manifest["spec"]["template"]["spec"]["containers"][0]["volumeMount"] = []

    with pytest.raises(kubernetes_validate.ValidationError, match="volumeMount"):
        kubernetes_validate.validate(manifest, KUBERNETES[-1], strict=True)


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_the_broker_accepts_the_rendered_settings(case: Path, tmp_path: Path) -> None:
    settings = loaded(settings_of(rendered(case)), tmp_path)

    assert settings.listen == ("[::]:7461" if case.stem == "shard-values" else "0.0.0.0:7461")
    assert settings.data_dir == Path("/data/broker")


def test_the_settings_of_the_values_reach_the_broker(tmp_path: Path) -> None:
    settings = loaded(settings_of(rendered(CHART / "ci" / "anonymous-values.yaml")), tmp_path)

    assert settings.sinks_max == 200_000
    assert settings.max_broker_bytes == 15_000_000_000
    assert settings.memory_high_watermark == 0.75
    assert settings.sink_defaults.partitions == 8


@pytest.mark.parametrize("case", ["mtls", "secret"])
def test_metrics_beside_access_control_are_permitted_by_their_own_setting(case: str, tmp_path: Path) -> None:
    settings = loaded(settings_of(rendered(CHART / "ci" / f"{case}-values.yaml")), tmp_path)

    assert settings.metrics_listen == "0.0.0.0:7463"
    assert settings.metrics_allow_anonymous
    assert not settings.allow_anonymous


def test_without_metrics_they_are_not_permitted(tmp_path: Path) -> None:
    settings = loaded(settings_of(rendered(CHART / "ci" / "tokens-values.yaml")), tmp_path)

    assert not settings.metrics_listen
    assert not settings.permits_open_metrics


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_every_file_of_the_settings_is_mounted(case: Path) -> None:
    manifests = rendered(case)
    document = tomllib.loads(settings_of(manifests))

    files = [Path(value) for name, value in document.items() if name.endswith(("_file", "_dir"))]

    assert files
    for pod in pods_of(manifests):
        mounts = [Path(each["mountPath"]) for each in pod["containers"][0]["volumeMounts"]]
        assert all(any(file.is_relative_to(mount) for mount in mounts) for file in files), files


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_every_listening_address_is_a_port_of_the_container_and_of_the_service(case: Path) -> None:
    manifests = rendered(case)
    document = tomllib.loads(settings_of(manifests))
    listening = {int(value.rpartition(":")[2]) for name, value in document.items() if name.endswith("listen")}
    ports = [port["port"] for each in services(manifests).values() for port in each["ports"]]

    for pod in pods_of(manifests):
        assert {each["containerPort"] for each in pod["containers"][0]["ports"]} == listening
    also = [7461] * 4 + [7462] if case.stem == "fleet-values" else [7461]
    assert sorted(ports) == sorted([*also, *listening]), (
        "gRPC is in the headless Service, and in two of each shard, too; the console is in one of each shard"
    )


@pytest.mark.parametrize("kind", ["ClusterIP", "NodePort", "LoadBalancer"])
def test_metrics_are_in_a_service_that_no_other_network_reaches(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    values = {"tls": {"existingSecret": "tls", "requireClientCertificate": True}, "service": {"type": kind}}
    file.write_text(json.dumps(values), encoding="utf-8")

    found = services(rendered(file))

    assert found["events-forebay"]["type"] == kind
    assert [port["port"] for port in found["events-forebay"]["ports"]] == [7461]
    assert found["events-forebay-metrics"]["type"] == "ClusterIP"
    assert [port["port"] for port in found["events-forebay-metrics"]["ports"]] == [7463]


def test_the_addresses_are_those_of_the_host_of_the_values(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    values = {"auth": {"allowAnonymous": True}, "console": {"enabled": True}, "listenHost": "[::]"}
    file.write_text(json.dumps(values), encoding="utf-8")

    settings = loaded(settings_of(rendered(file)), tmp_path)

    assert settings.listen == "[::]:7461"
    assert settings.console_listen == "[::]:7462"
    assert settings.metrics_listen == "[::]:7463"


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_no_probe_ends_a_broker_that_waits_for_its_journal(case: Path) -> None:
    manifests = rendered(case)
    follows = "journal" in tomllib.loads(settings_of(manifests))

    assert follows == (case.stem in {"shard-values", "fleet-values"})
    for pod in pods_of(manifests):
        probes = {name for name in pod["containers"][0] if name.endswith("Probe")}
        assert probes == ({"readinessProbe"} if follows else {"readinessProbe", "startupProbe", "livenessProbe"})


def test_a_short_grace_period_is_refused_also_for_the_default_of_drain_s(tmp_path: Path) -> None:
    values = {"auth": {"allowAnonymous": True}, "terminationGracePeriodSeconds": 30}

    assert "set at least 40\n" in refusal(tmp_path, values)


@pytest.mark.parametrize(
    ("drain", "least"), [(61, 91), ("61.5s", 92), ("1m30s", 120), ("5m", 330), (300, 330), ("61_000 ms", 91)]
)
def test_a_stop_that_would_be_killed_before_it_is_complete_is_refused(
    drain: float | str, least: int, tmp_path: Path
) -> None:
    values = {"auth": {"allowAnonymous": True}, "settings": {"drain_s": drain}}

    said = refusal(tmp_path, values)

    assert f"set at least {least}\n" in said
    file = tmp_path / "values.yaml"
    file.write_text(json.dumps({**values, "terminationGracePeriodSeconds": least}), encoding="utf-8")
    assert one(rendered(file), "StatefulSet")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == least


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "every caller of the network could read"),
        ({"tls": {"requireClientCertificate": True}}, "is of no use without tls.existingSecret"),
        ({"auth": {"existingSecret": "hashes"}}, "tokens would go unencrypted"),
        (
            {"tls": {"existingSecret": "tls", "requireClientCertificate": True}, "console": {"enabled": True}},
            "the console knows callers by their tokens",
        ),
    ],
)
def test_values_that_the_broker_would_refuse_are_refused(values: dict[str, Any], said: str, tmp_path: Path) -> None:
    assert said in refusal(tmp_path, values)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"settings": {"sink_max": 5}}, "sink_max"),
        ({"settings": {"data_dir": "/elsewhere"}}, "data_dir"),
        ({"metric": {"enabled": True}}, "metric"),
        ({"logLevel": "loud"}, "logLevel"),
        ({"persistence": {"size": "20 GB"}}, "size"),
        ({"listenHost": "127.0.0.1"}, "listenHost"),
    ],
)
def test_values_beside_the_schema_are_refused(values: dict[str, Any], said: str, tmp_path: Path) -> None:
    assert said in refusal(tmp_path, {"auth": {"allowAnonymous": True}, **values})


def test_the_settings_restart_the_broker_and_nothing_else_does(tmp_path: Path) -> None:
    def checksum(values: dict[str, Any]) -> str:
        file = tmp_path / "values.yaml"
        file.write_text(json.dumps({"auth": {"allowAnonymous": True}, **values}), encoding="utf-8")
        pod = one(rendered(file), "StatefulSet")["spec"]["template"]
        found: str = pod["metadata"]["annotations"]["checksum/settings"]
        return found

    assert checksum({"settings": {"sinks_max": 5}}) != checksum({})
    assert checksum({"service": {"type": "NodePort"}}) == checksum({})


FLEET: Final[dict[str, dict[str, Any]]] = {
    "auth": {"allowAnonymous": True},
    "settings": {"journal": "s3://bucket/fleet"},
}
"""Values of a fleet but its shards."""


def test_each_shard_is_a_set_of_brokers_with_settings_of_their_own(tmp_path: Path) -> None:
    manifests = rendered(CHART / "ci" / "fleet-values.yaml")
    found = sets_of(manifests)

    assert {name: spec["replicas"] for name, spec in found.items()} == {"events-forebay-a": 2, "events-forebay-b": 1}
    file = tmp_path / "broker.toml"
    file.write_text(settings_of(manifests), encoding="utf-8")
    for (name, spec), shard in zip(found.items(), "ab", strict=True):
        settings = served(spec, f"{name}-0", file)
        assert settings.shard == shard
        assert settings.journal.startswith("s3://forebay-journals/fleet")
        assert settings.advertise == f"{name}-0.{spec['serviceName']}.data.svc:7461"


def served(spec: dict[str, Any], pod: str, file: Path) -> BrokerSettings:
    """Return the settings that the broker of a pod reads from its command line and a file."""
    container = spec["template"]["spec"]["containers"][0]
    assert {each["name"]: each["valueFrom"] for each in container["env"]}["POD_NAME"] == {
        "fieldRef": {"fieldPath": "metadata.name"}
    }
    words = [word.replace("$(POD_NAME)", pod) for word in container["args"]]
    chosen = dict(word.removeprefix("--set=").split("=", 1) for word in words if word.startswith("--set="))
    return load(file, from_environment=False, **chosen)


def test_the_brokers_of_a_shard_start_and_are_replaced_without_waiting_for_followers() -> None:
    """A follower is never ready: a step that waits until it is would never end."""
    for spec in sets_of(rendered(CHART / "ci" / "fleet-values.yaml")).values():
        assert spec["podManagementPolicy"] == "Parallel"
        assert spec["updateStrategy"] == {"type": "OnDelete"}


def test_the_brokers_of_a_shard_are_on_different_nodes_unless_the_values_say_otherwise(tmp_path: Path) -> None:
    for spec in sets_of(rendered(CHART / "ci" / "fleet-values.yaml")).values():
        apart = spec["template"]["spec"]["affinity"]["podAntiAffinity"]
        [node] = apart["requiredDuringSchedulingIgnoredDuringExecution"]
        [zone] = apart["preferredDuringSchedulingIgnoredDuringExecution"]
        assert node["topologyKey"] == "kubernetes.io/hostname"
        assert zone["podAffinityTerm"]["topologyKey"] == "topology.kubernetes.io/zone"
        for term in (node, zone["podAffinityTerm"]):
            assert term["labelSelector"] == spec["selector"]
    own: dict[str, Any] = {"nodeAffinity": {}}
    file = tmp_path / "values.yaml"
    file.write_text(json.dumps({**FLEET, "shards": [{"name": "a", "brokers": 2}], "affinity": own}), encoding="utf-8")

    [pod] = pods_of(rendered(file))

    assert pod["affinity"] == own


def test_the_service_of_a_shard_selects_its_brokers_and_the_ready_one_is_its_owner() -> None:
    manifests = rendered(CHART / "ci" / "fleet-values.yaml")
    found, sets = services(manifests), sets_of(manifests)

    for name, spec in sets.items():
        assert found[name]["selector"] == spec["selector"]["matchLabels"]
        assert "publishNotReadyAddresses" not in found[name]
        headless = found[spec["serviceName"]]
        assert headless["selector"] == spec["selector"]["matchLabels"]
        assert headless["publishNotReadyAddresses"], "an owner is advertised before its readiness is known"
    for spec in sets.values():
        labels = spec["template"]["metadata"]["labels"]
        selecting = [name for name, each in found.items() if each["selector"].items() <= labels.items()]
        shard = labels["forebay/shard"]
        assert selecting == [
            "events-forebay",
            f"events-forebay-{shard}",
            f"events-forebay-{shard}-headless",
            "events-forebay-metrics",
        ]


def test_the_console_of_a_shard_is_in_the_service_of_its_owner_only() -> None:
    """Each owner shows the sinks of its own shard: a Service of several owners would show one of them at random."""
    found = services(rendered(CHART / "ci" / "fleet-values.yaml"))

    console = {name for name, each in found.items() if 7462 in [port["port"] for port in each["ports"]]}

    assert console == {"events-forebay-a", "events-forebay-b"}


@pytest.mark.parametrize(
    ("case", "led"),
    [
        ("fleet", ["events-forebay-a", "events-forebay-b"]),
        ("anonymous", ["events-forebay"]),
        ("mtls", []),
    ],
)
def test_the_notes_lead_to_each_console(case: str, led: list[str], tmp_path: Path) -> None:
    said = notes(CHART / "ci" / f"{case}-values.yaml", tmp_path)

    assert re.findall(r"^  kubectl --namespace data port-forward service/(\S+) 7462 ", said, re.MULTILINE) == led


def notes(values: Path, folder: Path) -> str:
    """Return what Helm says after an installation.

    `helm template` leaves it out, so a copy of the chart has it as a manifest.
    """
    chart = folder / "chart"
    shutil.copytree(CHART, chart)
    text = (CHART / "templates" / "NOTES.txt").read_text(encoding="utf-8")
    (chart / "templates" / "_notes.tpl").write_text(f'{{{{- define "notes" -}}}}{text}{{{{- end }}}}', encoding="utf-8")
    (chart / "templates" / "notes.yaml").write_text(
        'kind: Notes\ntext: {{ include "notes" . | quote }}\n', encoding="utf-8"
    )
    done = helm(
        "template", "events", chart, "--namespace", "data", "--values", values, "--show-only", "templates/notes.yaml"
    )
    assert done.returncode == 0, done.stderr
    [document] = yaml.safe_load_all(done.stdout)
    found: str = document["text"]
    return found


@pytest.mark.parametrize("name", ["1", "1e3", "on", "true", "null"])
def test_a_shard_whose_name_yaml_reads_as_something_else_keeps_its_name(name: str, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(json.dumps({**FLEET, "shards": [{"name": name, "brokers": 2}]}), encoding="utf-8")

    manifests = rendered(file)
    [spec] = sets_of(manifests).values()

    assert spec["selector"]["matchLabels"]["forebay/shard"] == name
    assert spec["template"]["metadata"]["labels"]["forebay/shard"] == name
    assert f"--set=shard={name}" in spec["template"]["spec"]["containers"][0]["args"]
    assert services(manifests)[f"events-forebay-{name}"]["selector"]["forebay/shard"] == name


def test_a_drain_ends_followers_at_any_time_and_waits_for_owners() -> None:
    budget = one(rendered(CHART / "ci" / "fleet-values.yaml"), "PodDisruptionBudget")["spec"]

    assert budget["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    assert budget["maxUnavailable"] == 0


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"settings": {}}, "shards need settings.journal"),
        ({"settings": {**FLEET["settings"], "shard": "a"}}, "remove settings.shard and settings.advertise"),
        ({"settings": {**FLEET["settings"], "advertise": "h:1"}}, "remove settings.shard and settings.advertise"),
        ({"persistence": {"existingClaim": "data"}}, "remove persistence.existingClaim"),
        ({"service": {"type": "LoadBalancer"}}, "service.type = LoadBalancer: owners of shards are advertised"),
        ({"service": {"type": "NodePort"}}, "set service.type=ClusterIP"),
        ({"shards": [{"name": "a", "brokers": 1}] * 2}, "two shards have the same name"),
        ({"shards": [{"name": "a" * 40, "brokers": 1}]}, "at most 51 characters together"),
        ({"shards": [{"name": "metrics", "brokers": 1}]}, "metrics is that of a Service of the chart"),
        ({"shards": [{"name": "a-headless", "brokers": 1}]}, "a-headless is that of a Service of the chart"),
        ({"shards": [{"name": "a", "brokers": 0}]}, "brokers"),
        ({"shards": [{"name": "A", "brokers": 1}]}, "name"),
        ({"shards": [{"name": "a"}]}, "brokers"),
    ],
)
def test_shards_that_could_not_work_are_refused(values: dict[str, Any], said: str, tmp_path: Path) -> None:
    assert said in refusal(tmp_path, {**FLEET, "shards": [{"name": "a", "brokers": 2}], **values})
