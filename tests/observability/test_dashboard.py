"""The dashboard and the alert rules over the metrics of a broker that had something of everything to measure."""

from __future__ import annotations

import itertools
import re
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
import yaml
from compose.observability.dashboard import queries

from forebay.client import Client, Record, SinkFull, Stage
from tests.observability.conftest import until
from tests.support.telemetry.prometheus import Prometheus
from tests.support.telemetry.tools import SHIPPED, tool

VARIABLES: Final = {
    "$__rate_interval": "10s",
    "$__range": "10m",
    "$job": "forebay",
    "$instance": ".*",
    "$sink": ".*",
    "$subscription": ".*",
}
"""Values that Grafana puts in place of its variables."""
QUIET: Final = {
    "forebay_calls_refused_total",  # needs tokens
    "forebay_connections_closed_total",  # needs more connections than a machine likes
    "forebay_streams_shed_total",  # needs readers that stand still for long
}
"""Metrics that begin with an event that does not happen here."""


def as_asked(query: str) -> str:
    """Return a query as Grafana sends it."""
    for name, value in VARIABLES.items():
        query = query.replace(name, value)
    return query


def test_the_tests_of_the_alert_rules_pass() -> None:
    command = [tool("promtool"), "test", "rules", "rules.test.yaml"]

    done = subprocess.run(command, cwd=SHIPPED, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("values", "lost"),
    [
        ("_x5 7x20", 7),  # the first loss of a sink
        ("3x25", 0),  # one of before
        ("3x10 8x15", 5),
        ("_x5 7x5 _x15", 7),  # the broker was started again
        ("_x25", 0),
    ],
)
def test_the_dashboard_counts_every_record_that_was_lost(values: str, lost: int, tmp_path: Path) -> None:
    [query] = [as_asked(query) for query in queries() if "vector(0)" in query and "dropped_records" in query]
    expression = f"round({query.replace('10m', '20m')})"
    labels = 'job="forebay",instance="b",messaging_destination_name="orders",reason="OVERFLOW"'
    case = {
        "interval": "1m",
        "input_series": [{"series": f"forebay_dropped_records_total{{{labels}}}", "values": values}],
        "promql_expr_test": [
            {"expr": expression, "eval_time": "20m", "exp_samples": [{"labels": "{}", "value": lost}]}
        ],
    }
    file = tmp_path / "lost.test.yaml"
    file.write_text(yaml.safe_dump({"tests": [case]}), encoding="utf-8")

    done = subprocess.run([tool("promtool"), "test", "rules", str(file)], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


class Work:
    """Work that makes each metric move: records that are published, refused, dropped, failed, rejected and staged."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._round = itertools.count()
        client.sinks.create("orders", dlq_ratio_max=1.0, retry_backoff_max_s=1.0)
        client.sinks.create("dropping", max_disk_cache=2, overflow="DROP_OLDEST")
        client.sinks.create("full", max_disk_cache=1)
        client.sinks.create("waiting")
        stage = Stage("query", 1, "run", client.epochs.take_ticket("orders"))
        with client.publisher("orders", stage=stage) as publisher:
            publisher.send(b"staged")

    def once(self) -> None:
        """Do all of it once more."""
        client = self._client
        client.publish("orders", [Record(b"%d" % next(self._round)) for _ in range(4)])
        client.publish("dropping", [Record(b"x"), Record(b"y")])
        client.publish("waiting", [Record(b"x")])
        for _ in range(2):
            with suppress(SinkFull):
                client.publish("full", [Record(b"x")])
        with client.subscriber("orders") as subscriber:
            deliveries = iter(subscriber)
            next(deliveries).nack(reason="away", wait=True)
            delivery = next(deliveries)
            delivery.dead_letter("refused", offset=delivery.first_offset, wait=True)
            delivery.ack(wait=True)


def test_every_query_of_the_dashboard_is_answered(served: dict[str, str], prometheus: Prometheus) -> None:
    expressions = [as_asked(query) for query in queries()]
    unanswered = set(expressions)

    with Client(served["endpoint"]) as client:
        work = Work(client)

        def all_answered() -> bool:
            work.once()
            for expression in list(unanswered):
                if prometheus.query(expression):
                    unanswered.discard(expression)
            return all(any(name in expression for name in QUIET) for expression in unanswered)

        until(all_answered, f"no series answers {sorted(unanswered)}", timeout_s=40, pause_s=1.0)

    assert len(expressions) > 30
    for expression in expressions:
        assert prometheus.query(expression) is not None


def test_the_rules_are_evaluated_and_see_what_the_broker_lost(served: dict[str, str], prometheus: Prometheus) -> None:
    until(lambda: set(prometheus.rules().values()) == {"ok"}, "a rule is not evaluated")
    with Client(served["endpoint"]) as client:
        client.sinks.create("lossy", max_disk_cache=1, overflow="DROP_OLDEST")
        client.publish("lossy", [Record(b"a")])
        client.publish("lossy", [Record(b"b")])

    until(
        lambda: bool(prometheus.query('ALERTS{alertname="ForebayRecordsLost",messaging_destination_name="lossy"}')),
        "nobody was alerted",
    )


@pytest.mark.parametrize("word", ["[$]", "<", ">[^ =]"])
def test_nothing_of_the_table_s_own_notation_reaches_prometheus(word: str) -> None:
    assert not [query for query in queries() if re.search(word, as_asked(query))]
