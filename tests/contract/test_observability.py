"""Dashboard, alert rules and configurations beside the tables of the product; `tests/observability` runs Prometheus."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import typer
import yaml
from compose.observability.dashboard import prometheus_names

from forebay.broker.runtime.metrics import MetricKind
from forebay.broker.settings import load
from forebay.broker.telemetry.exporter_selection import selected_exporters
from forebay.broker.telemetry.instruments import METRICS
from forebay.cli.app import app

FOLDER: Final = Path(__file__).resolve().parents[2] / "compose" / "observability"
SERIES: Final = {
    name + suffix
    for metric in METRICS
    for name in [prometheus_names()[metric.name]]
    for suffix in (("_bucket", "_count", "_sum") if metric.kind is MetricKind.HISTOGRAM else ("",))
}
"""Names of all series that Prometheus scrapes of a broker."""


def document(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))


def rules() -> list[dict[str, Any]]:
    return [rule for group in document("rules.yaml")["groups"] for rule in group["rules"]]


def named(expression: str) -> set[str]:
    """Return the names of metrics in a query."""
    return set(re.findall(r"\b(?:forebay|rpc_server)_[a-z_]+", re.sub(r'"[^"]*"|by \([^)]*\)', "", expression)))


def test_the_dashboard_is_the_one_that_its_table_gives() -> None:
    done = subprocess.run([sys.executable, str(FOLDER / "dashboard.py"), "--check"], check=False)

    assert done.returncode == 0


def test_the_dashboard_asks_for_nothing_that_no_broker_has() -> None:
    panels = json.loads((FOLDER / "grafana" / "dashboard.json").read_text(encoding="utf-8"))["panels"]
    asked = set[str]().union(*(named(target["expr"]) for panel in panels for target in panel.get("targets", ())))

    assert asked
    assert asked - SERIES == set()
    assert all(panel["description"] for panel in panels if panel["type"] != "row")


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_asks_for_metrics_of_a_broker_and_says_what_to_do(rule: dict[str, Any]) -> None:
    assert named(rule["expr"]) - SERIES == set()
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert set(rule["annotations"]) == {"summary", "action"}


def test_every_alert_has_a_test_in_which_it_fires() -> None:
    tests = document("rules.test.yaml")["tests"]
    fires = {case["alertname"] for test in tests for case in test["alert_rule_test"] if case.get("exp_alerts")}

    assert fires == {rule["alert"] for rule in rules()}


def test_the_texts_that_a_test_expects_are_those_of_the_alert() -> None:
    expected = [
        (case["alertname"], key, text)
        for test in document("rules.test.yaml")["tests"]
        for case in test["alert_rule_test"]
        for alert in case.get("exp_alerts", ())
        for key, text in alert["exp_annotations"].items()
    ]
    given = {(rule["alert"], key): text for rule in rules() for key, text in rule["annotations"].items()}

    assert len(expected) >= 2 * len(rules())
    for name, key, text in expected:
        words = [re.escape(word) for word in re.split(r"\{\{.*?\}\}", given[name, key])]
        assert re.fullmatch(".+".join(words), text), (name, key)


def test_each_metric_of_the_broker_reaches_the_prometheus_of_compose_once() -> None:
    broker = yaml.safe_load((FOLDER.parent / "compose.yaml").read_text(encoding="utf-8"))["services"]["broker"]
    settings = {**broker["environment"], "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317"}
    defaults = {name: re.sub(r"\$\{\w+:-(.*?)\}", r"\1", str(value)) for name, value in settings.items()}

    selected = selected_exporters({name: value for name, value in defaults.items() if name.startswith("OTEL_")})

    assert selected.metrics == (), "metrics_listen has them scraped"
    assert selected.traces
    assert selected.logs


def test_an_alert_names_only_commands_that_exist() -> None:
    text = " ".join(rule["annotations"]["action"] for rule in rules())
    asked = re.findall(r"forebay ([a-z]+)(?: ([a-z]+))?", text)
    top: Any = typer.main.get_command(app)

    assert len(asked) > 8
    for first, second in asked:
        command = top.commands.get(first)
        assert command is not None, first
        assert not hasattr(command, "commands") or second in command.commands, (first, second)


def test_every_pipeline_of_the_collector_uses_what_is_defined() -> None:
    collector = document("collector.yaml")

    for pipeline in collector["service"]["pipelines"].values():
        for kind, names in pipeline.items():
            assert set(names) <= set(collector[kind])


def test_prometheus_takes_what_the_collector_sends_and_scrapes_the_port_of_the_broker() -> None:
    compose = yaml.safe_load((FOLDER.parent / "compose.yaml").read_text(encoding="utf-8"))["services"]
    exporter = document("collector.yaml")["exporters"]["otlp_http/prometheus"]
    [scrape] = document("prometheus.yaml")["scrape_configs"]
    [target] = scrape["static_configs"][0]["targets"]

    assert exporter["endpoint"].startswith("http://prometheus:9090/")
    assert "--web.enable-otlp-receiver" in compose["prometheus"]["command"]
    settings = compose["broker"]["environment"]
    assert settings["FOREBAY_METRICS_LISTEN"].rpartition(":")[2] == target.rpartition(":")[2]
    names = {"metrics_listen": "FOREBAY_METRICS_LISTEN", "metrics_allow_anonymous": "FOREBAY_METRICS_ALLOW_ANONYMOUS"}
    assert load(from_environment=False, **{name: settings[variable] for name, variable in names.items()}).metrics_listen


def version(pattern: str, file: str) -> tuple[int, ...]:
    """Return the version that a pattern finds in a file of the repository, once."""
    [found] = re.findall(pattern, (FOLDER.parents[1] / file).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return tuple(map(int, found.split(".")))


def test_the_servers_of_compose_are_those_that_are_tested() -> None:
    compose = "compose/compose.yaml"
    collector = version(r"go\.opentelemetry\.io/collector/otelcol v([\d.]+)$", "tests/observability/collector/go.mod")
    _, jaeger, jaeger_patch = version(
        r"github\.com/jaegertracing/jaeger v([\d.]+)\b", "tests/observability/jaeger/go.mod"
    )
    _, prometheus, prometheus_patch = version(r"^PROMETHEUS_VERSION := v([\d.]+)$", "Makefile")

    assert version(r"opentelemetry-collector:([\d.]+)", compose) == collector
    # Release 2.N is version 1.N+63 of its module; Prometheus 3.N is version 0.300+N.
    assert version(r"jaegertracing/jaeger:([\d.]+)", compose) == (2, jaeger - 63, jaeger_patch)
    assert version(r"prom/prometheus:v([\d.]+)", compose) == (3, prometheus - 300, prometheus_patch)


def test_the_images_of_the_example_are_those_of_compose() -> None:
    compose = dict(re.findall(r"\$\{(\w+_IMAGE):-([^}]+)\}", (FOLDER.parent / "compose.yaml").read_text("utf-8")))
    example = dict(
        re.findall(r"^#(\w+_IMAGE)=(.+)$", (FOLDER.parents[1] / ".env.example").read_text("utf-8"), re.MULTILINE)
    )

    assert {"PROMETHEUS_IMAGE", "GRAFANA_IMAGE", "JAEGER_IMAGE", "COLLECTOR_IMAGE"} <= set(compose)
    assert example.items() >= compose.items()
