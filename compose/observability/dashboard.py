"""Writes the dashboard of Grafana, `grafana/dashboard.json`, from a table of panels over the broker's table of metrics.

    python compose/observability/dashboard.py            writes the file
    python compose/observability/dashboard.py --check    fails if the file is another one

A query names a metric by its name in OpenTelemetry, in braces; so a metric that does not exist is an error here.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from forebay.broker.runtime.metrics import MetricKind
from forebay.broker.telemetry.instruments import METRICS

FILE: Final = Path(__file__).parent / "grafana" / "dashboard.json"
COLUMNS: Final = 24
"""Width of Grafana's grid."""
UNITS: Final = {"s": "_seconds", "By": "_bytes"}
"""Suffixes of names in Prometheus by unit."""
BROKER: Final = 'job="$job",instance=~"$instance"'
SINK: Final = f'{BROKER},messaging_destination_name=~"$sink"'
GROUP: Final = f'{SINK},messaging_consumer_group_name=~"$subscription"'
UNINTENDED: Final = f'{SINK},reason!~"PURGED|EXPIRED|CLEANED_AT_STOP"'
BY_SINK: Final = "messaging_destination_name"
BY_GROUP: Final = "messaging_destination_name, messaging_consumer_group_name"
OF_SINK: Final = "{{messaging_destination_name}}"
OF_GROUP: Final = "{{messaging_destination_name}} → {{messaging_consumer_group_name}}"
RATE: Final = "[$__rate_interval]"


def prometheus_names() -> dict[str, str]:
    """Return the name in Prometheus of each metric by its name in OpenTelemetry; a histogram's is without suffix."""
    found: dict[str, str] = {}
    for metric in METRICS:
        name, unit = re.sub(r"[^a-zA-Z0-9_]", "_", metric.name), UNITS.get(metric.unit, "")
        total = "_total" if metric.kind is MetricKind.COUNTER else ""
        found[metric.name] = name.removesuffix(unit) + unit + total
    return found


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: a title, what it tells, and queries with their legends."""

    title: str
    description: str
    queries: Sequence[tuple[str, str]]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    height: int = 7
    stacked: bool = False
    alarming: tuple[float, float] | None = None
    """Values from which on a figure is shown in yellow and in red."""


def rate(metric: str, labels: str, by: str) -> str:
    """Return the query of a counter's rate."""
    return f"sum by ({by}) (rate(<{metric}>{{{labels}}}{RATE}))"


def used(figure: str, limit: str) -> str:
    """Return the query of the used part of a limit of each broker."""
    return f"sum by (instance) (<{figure}>{{{BROKER}}}) / sum by (instance) (<{limit}>{{{BROKER}}})"


def dropped(window: str, labels: str = SINK) -> str:
    """Return the query of the records dropped within a window, by series.

    A counter of an event begins with its first event, which has no increase: the value of a series that is younger than
    the window counts as a whole.
    """
    counter = f"<forebay.dropped.records>{{{labels}}}"
    return f"(increase({counter}[{window}]) and {counter} offset {window}) or max_over_time({counter}[{window}])"


def quantile(share: float, metric: str, labels: str, by: str = "") -> str:
    """Return the query of a quantile of a histogram."""
    kept = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, sum by ({kept}) (rate(<{metric}>_bucket{{{labels}}}{RATE})))"


ROWS: Final[dict[str, Sequence[Panel]]] = {
    "Broker": [
        Panel(
            "State",
            "State and version of each broker. A fenced broker ends and is started again by its supervisor.",
            [(f"<forebay.info>{{{BROKER}}}", "{{instance}} {{state}} {{version}}")],
            kind="stat",
            width=6,
            height=5,
        ),
        Panel(
            "Waiting records",
            "Records that a subscription has not settled yet. Dead letters are not counted.",
            [(f'sum(<forebay.subscription.lag>{{{GROUP},messaging_destination_name!~".*[.]dlq"}})', "waiting")],
            kind="stat",
            width=4,
            height=5,
        ),
        Panel(
            "Oldest waiting record",
            "Age of the oldest record that is not settled: how long a remote system has been behind.",
            [(f'max(<forebay.subscription.lag.age>{{{GROUP},messaging_destination_name!~".*[.]dlq"}})', "oldest")],
            unit="s",
            kind="stat",
            width=5,
            height=5,
            alarming=(60, 300),
        ),
        Panel(
            "Lost records",
            "Records dropped in the shown time, other than by a purge, by age, or by a stop that clears the sink.",
            [
                (f"sum({dropped('$__range', UNINTENDED)}) or vector(0)", "lost"),
            ],
            kind="stat",
            width=4,
            height=5,
            alarming=(1, 1),
        ),
        Panel(
            "Used part of the limits",
            "The fullest sink: at 100 % appends are refused, or the oldest records are dropped.",
            [(f"max(<forebay.sink.limit.used>{{{SINK}}})", "fullest")],
            unit="percentunit",
            kind="stat",
            width=5,
            height=5,
            alarming=(0.7, 0.9),
        ),
    ],
    "Flow": [
        Panel(
            "Records in and out",
            "Records made durable, and records settled by consumers. The distance between the two is what piles up.",
            [
                (f"sum(rate(<forebay.ingest.records>{{{SINK}}}{RATE}))", "in"),
                (f'sum(rate(<forebay.settled.records>{{{GROUP},outcome="acked"}}{RATE}))', "out"),
            ],
            unit="cps",
            width=12,
        ),
        Panel(
            "Waiting records by subscription",
            "Records that are not settled.",
            [(f"sum by ({BY_GROUP}) (<forebay.subscription.lag>{{{GROUP}}})", OF_GROUP)],
            width=12,
            stacked=True,
        ),
        Panel(
            "Age of the oldest waiting record",
            "It grows by a second per second while a remote system is unreachable, and falls afterwards.",
            [(f"max by ({BY_GROUP}) (<forebay.subscription.lag.age>{{{GROUP}}})", OF_GROUP)],
            unit="s",
        ),
        Panel(
            "Bytes in",
            "Bytes of pages made durable.",
            [(rate("forebay.ingest.bytes", SINK, BY_SINK), OF_SINK)],
            unit="Bps",
            stacked=True,
        ),
        Panel(
            "Refused appends",
            "Appends that were not admitted, by reason. Publishers try again, within their time limit.",
            [(rate("forebay.ingest.refused", SINK, f"{BY_SINK}, reason"), f"{OF_SINK} {{{{reason}}}}")],
            unit="cps",
        ),
        Panel(
            "Sinks that need attention",
            "Sinks that neither flow nor are idle.",
            [
                (
                    f'sum by ({BY_SINK}, state) (<forebay.sink.state>{{{SINK},state!~"idle|flowing"}})',
                    f"{OF_SINK} {{{{state}}}}",
                )
            ],
            kind="table",
            width=12,
        ),
        Panel(
            "Used part of each limit",
            "Share of the tightest limit of a sink that is in use.",
            [(f"<forebay.sink.limit.used>{{{SINK}}}", OF_SINK)],
            unit="percentunit",
            width=12,
        ),
    ],
    "Delivery": [
        Panel(
            "Failed deliveries",
            "Deliveries that will be repeated, by reason.",
            [(rate("forebay.delivery.failures", GROUP, f"{BY_GROUP}, reason"), f"{OF_GROUP} {{{{reason}}}}")],
            unit="cps",
        ),
        Panel(
            "Delivered and delivered again",
            "Records put in flight, and those of them that were delivered before.",
            [
                (rate("forebay.delivered.records", GROUP, BY_GROUP), OF_GROUP),
                (rate("forebay.redelivered.records", GROUP, BY_GROUP), f"{OF_GROUP} again"),
            ],
            unit="cps",
        ),
        Panel(
            "Settled by outcome",
            "Records settled: acked, moved to the dead letters, dropped, skipped.",
            [(rate("forebay.settled.records", GROUP, "outcome"), "{{outcome}}")],
            unit="cps",
            stacked=True,
        ),
        Panel(
            "Time from accepted to acked",
            "Time that pages stayed in the broker.",
            [
                (quantile(0.5, "forebay.residence.duration", GROUP, BY_GROUP), f"{OF_GROUP} p50"),
                (quantile(0.99, "forebay.residence.duration", GROUP, BY_GROUP), f"{OF_GROUP} p99"),
            ],
            unit="s",
            width=12,
        ),
        Panel(
            "Dead letters",
            "Records in the dead-letter sinks, which wait for a redrive or a purge.",
            [(f"<forebay.sink.dead_letters>{{{SINK}}}", OF_SINK)],
            width=12,
        ),
    ],
    "Latency": [
        Panel(
            "Group commit",
            "Write and sync of one group: what the disk answers.",
            [
                (quantile(0.5, "forebay.storage.sync.duration", BROKER), "p50"),
                (quantile(0.99, "forebay.storage.sync.duration", BROKER), "p99"),
            ],
            unit="s",
        ),
        Panel(
            "Accepted to durable",
            "Time until a page is durable, with its wait for a group.",
            [
                (quantile(0.5, "forebay.ingest.duration", SINK), "p50"),
                (quantile(0.99, "forebay.ingest.duration", SINK), "p99"),
            ],
            unit="s",
        ),
        Panel(
            "Calls, p99 by method",
            "Duration of calls with one request and one response.",
            [(quantile(0.99, "rpc.server.call.duration", BROKER, "rpc_method"), "{{rpc_method}}")],
            unit="s",
        ),
        Panel(
            "Calls by status",
            "Calls with one request and one response, other than successful ones.",
            [
                (
                    "sum by (rpc_method, rpc_response_status_code) (rate(<rpc.server.call.duration>_count"
                    f'{{{BROKER},rpc_response_status_code!="OK"}}{RATE}))',
                    "{{rpc_method}} {{rpc_response_status_code}}",
                )
            ],
            unit="cps",
            width=12,
        ),
        Panel(
            "Calls refused by access control",
            "Calls without a valid credential or without the right, and calls over a rate.",
            [(rate("forebay.calls.refused", BROKER, "caller, reason"), "{{caller}} {{reason}}")],
            unit="cps",
            width=12,
        ),
    ],
    "Resources": [
        Panel(
            "Disk",
            "Free bytes of the device; below the reserve appends are refused.",
            [
                (f"<forebay.disk.free>{{{BROKER}}}", "free"),
                (f"<forebay.disk.reserve>{{{BROKER}}}", "reserve"),
            ],
            unit="bytes",
        ),
        Panel(
            "Memory",
            "Memory of the process or its control group; above the watermark the broker holds less.",
            [
                (f"<forebay.memory.used>{{{BROKER}}}", "used"),
                (f"<forebay.memory.watermark>{{{BROKER}}}", "watermark"),
                (f"<forebay.streams.size>{{{BROKER}}}", "streams"),
                (f"<forebay.tail.size>{{{BROKER}}}", "newest pages"),
            ],
            unit="bytes",
        ),
        Panel(
            "Connections and streams",
            "Open connections by use, and open streams.",
            [
                (f"<forebay.connections>{{{BROKER}}}", "{{use}}"),
                (f"<forebay.streams>{{{BROKER}}}", "streams"),
            ],
        ),
        Panel(
            "Used part of the broker's limits",
            "At 100 % the broker refuses appends (stored bytes, where they have a limit), lets streams wait (memory of "
            "streams), refuses streams, and refuses connections; from 7/8 on it closes the least useful of these.",
            [
                (used("forebay.broker.size", "forebay.broker.size.limit"), "{{instance}} stored bytes"),
                (used("forebay.streams.size", "forebay.streams.size.limit"), "{{instance}} memory of streams"),
                (used("forebay.streams", "forebay.streams.limit"), "{{instance}} streams"),
                (used("forebay.connections", "forebay.connections.limit"), "{{instance}} connections"),
            ],
            unit="percentunit",
        ),
        Panel(
            "Staged bytes",
            "Pages of open epochs: a commit makes them visible, an abort removes them.",
            [(f"<forebay.sink.staged.size>{{{SINK}}}", OF_SINK)],
            unit="bytes",
        ),
        Panel(
            "Write stalls",
            "1: the store slows writes since its background work is behind, 2: it stops them. The part of the time "
            "has the stalls between two scrapes, too.",
            [
                (f"<forebay.storage.write.stall>{{{BROKER}}}", "{{instance}}"),
                (f"rate(<forebay.storage.write.stall.time>{{{BROKER}}}{RATE})", "{{instance}} part of the time"),
            ],
        ),
        Panel(
            "Closed and shed",
            "Connections closed for a bound, and streams ended because their readers were too slow.",
            [
                (rate("forebay.connections.closed", BROKER, "reason"), "{{reason}}"),
                (f"sum(rate(<forebay.streams.shed>{{{BROKER}}}{RATE}))", "shed"),
            ],
            unit="cps",
        ),
    ],
    "Safety": [
        Panel(
            "Dropped records",
            "Records dropped within the interval of the rates, by reason.",
            [(f"sum by ({BY_SINK}, reason) ({dropped('$__rate_interval')})", f"{OF_SINK} {{{{reason}}}}")],
        ),
        Panel(
            "Damage and failures",
            "Damaged pages in quarantine, partitions whose reads fail, background work that failed.",
            [
                (f"<forebay.quarantine.pages>{{{BROKER}}}", "pages in quarantine"),
                (f"<forebay.storage.unreadable.partitions>{{{BROKER}}}", "unreadable partitions"),
                (f"<forebay.background.failures>{{{BROKER}}}", "failures of background work"),
            ],
        ),
        Panel(
            "Backup",
            "Age of the newest complete backup.",
            [(f"<forebay.backup.age>{{{BROKER}}}", "{{instance}}")],
            unit="s",
        ),
    ],
}
"""Panels by row."""


def variable(name: str, label: str, query: str, *, several: bool) -> dict[str, Any]:
    """Return a variable of the dashboard, filled by a query."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "includeAll": several,
        "multi": several,
        **({"allValue": ".*", "current": {"text": ["All"], "value": ["$__all"]}} if several else {}),
    }


SOURCE: Final = {"type": "prometheus", "uid": "${source}"}


def expression(query: str) -> str:
    """Return a query with the names of Prometheus."""
    names = prometheus_names()
    return re.sub(r"<([a-z._]+)>", lambda found: names[found[1]], query)


def queries() -> Iterator[str]:
    """Yield the query of each panel, and those of the variables, with the variables of Grafana in them."""
    for panels in ROWS.values():
        for panel in panels:
            for query, _ in panel.queries:
                yield expression(query)


def panel(number: int, spec: Panel, x: int, y: int) -> dict[str, Any]:
    """Return a panel at its place."""
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if spec.alarming is not None:
        steps += [{"color": "yellow", "value": spec.alarming[0]}, {"color": "red", "value": spec.alarming[1]}]
    is_table = spec.kind == "table"
    defaults: dict[str, Any] = {"unit": spec.unit, "thresholds": {"mode": "absolute", "steps": steps}}
    options: dict[str, Any] = {}
    if spec.kind == "timeseries":
        defaults |= {
            "min": 0,
            "custom": {
                "fillOpacity": 20 if spec.stacked else 5,
                "stacking": {"mode": "normal" if spec.stacked else "none"},
                "showPoints": "never",
            },
        }
        options = {
            "legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    elif spec.kind == "stat":
        options = {
            "reduceOptions": {"calcs": ["lastNotNull"]},
            "textMode": "name" if spec.title == "State" else "value",
            "colorMode": "value",
        }
    return {
        "id": number,
        "type": spec.kind,
        "title": spec.title,
        "description": spec.description,
        "datasource": SOURCE,
        "gridPos": {"x": x, "y": y, "w": spec.width, "h": spec.height},
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": [
            {
                "refId": chr(ord("A") + at),
                "expr": expression(query),
                "legendFormat": legend,
                "datasource": SOURCE,
                "exemplar": "_bucket" in query,
                **({"format": "table", "instant": True} if is_table else {}),
            }
            for at, (query, legend) in enumerate(spec.queries)
        ],
    }


def dashboard() -> dict[str, Any]:
    """Return the dashboard."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS.items():
        panels.append(
            {"id": len(panels) + 1, "type": "row", "title": title, "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1}}
        )
        x, y, highest = 0, y + 1, 0
        for spec in row:
            if x + spec.width > COLUMNS:
                x, y, highest = 0, y + highest, 0
            panels.append(panel(len(panels) + 1, spec, x, y))
            x, highest = x + spec.width, max(highest, spec.height)
        y += highest
    names = prometheus_names()
    info, depth, lag = names["forebay.info"], names["forebay.sink.depth"], names["forebay.subscription.lag"]
    return {
        "uid": "forebay",
        "title": "Forebay",
        "tags": ["forebay"],
        "timezone": "browser",
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
                variable("job", "Job", f"label_values({info}, job)", several=False),
                variable("instance", "Broker", f'label_values({info}{{job="$job"}}, instance)', several=True),
                variable("sink", "Sink", f"label_values({depth}{{{BROKER}}}, {BY_SINK})", several=True),
                variable(
                    "subscription",
                    "Subscription",
                    f"label_values({lag}{{{SINK}}}, messaging_consumer_group_name)",
                    several=True,
                ),
            ]
        },
        "panels": panels,
    }


def main(arguments: Sequence[str]) -> int:
    """Write the file, or compare it."""
    text = json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n"
    if "--check" in arguments:
        if FILE.read_text(encoding="utf-8") != text:
            sys.stderr.write(f"{FILE.name} is another one: run python {Path(__file__).name}\n")
            return 1
        return 0
    FILE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
