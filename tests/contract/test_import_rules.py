"""The parts of Forebay import each other in the directions of tests/support/rules/imports.py only."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.support.rules.imports import modules, rule_of, violations

ROOT: Final = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("source_root", ["protos", "broker", "client", "spark_integration"])
def test_every_import_follows_the_rules(source_root: str) -> None:
    found = [
        violation
        for module, is_package, path in modules(ROOT / source_root)
        for violation in violations(path.read_text(encoding="utf-8"), module, is_package=is_package)
    ]

    assert found == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("forebay.broker.core.cursors", "import threading"),
        ("forebay.broker.core.cursors", "import os.path"),
        ("forebay.broker.core.cursors", "import rocksdict"),
        ("forebay.broker.core.cursors", "from forebay.broker.storage import keys"),
        ("forebay.broker.core.cursors", "from ..runtime import clock"),
        ("forebay.broker.core.delivery.leases", "from datetime import datetime\nNOW = datetime.now()"),
        ("forebay.broker.core.delivery.leases", "import datetime\nNOW = datetime.datetime.now(datetime.UTC)"),
        ("forebay.broker.core.delivery.leases", "def read() -> None:\n    open('file')"),
        ("forebay.broker.storage.store.memory", "import rocksdict"),
        ("forebay.broker.storage.store.rocks.store", "from forebay.broker.runtime import clock"),
        ("forebay.broker.runtime.clock", "import grpc"),
        ("forebay.broker.runtime.clock", "from opentelemetry.sdk.metrics import MeterProvider"),
        ("forebay.broker.runtime.clock", "from forebay.broker.storage import memory"),
        ("forebay.broker.rpc.sinks.convert", "from forebay.broker.storage import memory"),
        ("forebay.broker.rpc.sinks.convert", "from forebay.broker import server"),
        ("forebay.broker.settings", "import grpc.aio"),
        ("forebay.broker.telemetry.instruments", "from forebay.v1 import sink_pb2"),
        ("forebay.broker.telemetry.instruments", "from forebay.broker import server"),
        ("forebay.client.transport.channel", "from forebay.broker import settings"),
        ("forebay.client.transport.channel", "def late() -> None:\n    import forebay.broker.server"),
        ("forebay.client.testing", "from forebay.broker.server import Server"),
        ("forebay.client.testing", "def late() -> None:\n    import forebay.broker.core"),
        ("forebay.deliver.loop", "import grpc"),
        ("forebay.deliver.loop", "import importlib\nimportlib.import_module('forebay.v1')"),
        ("forebay.spark.write.writer", "import grpc"),
        (
            "forebay.spark.write.writer",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import forebay.v1",
        ),
        ("forebay.spark.write.writer", "from forebay import broker"),
        ("forebay.spark", "from .. import v1"),
        ("forebay.errors.reasons", "import grpc"),
        ("forebay.errors.reasons", "from forebay.broker.core import errors"),
        ("pyspark_forebay", "import forebay.client"),
    ],
)
def test_a_forbidden_import_or_call_is_found(module: str, source: str) -> None:
    is_package = module in {"forebay.spark", "pyspark_forebay"}

    assert len(violations(source, module, is_package=is_package)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("forebay.broker.core.cursors", "from forebay.broker.core.records import Offset\nimport bisect"),
        ("forebay.broker.core.cursors", "from datetime import timedelta"),
        ("forebay.broker.core.errors", "from forebay.errors.reasons import Reason"),
        ("forebay.broker.storage.store.rocks.store", "import rocksdict\nfrom forebay.broker.storage import keys"),
        ("forebay.broker.runtime.clock", "import asyncio\nfrom opentelemetry import metrics"),
        ("forebay.broker.rpc.sinks.convert", "import grpc\nfrom forebay.v1 import sink_pb2"),
        ("forebay.broker.server", "from forebay.broker.storage.store.rocks.store import RocksStore"),
        ("forebay.client.testing", "def late() -> None:\n    from forebay.broker.embedded import BrokerServer"),
        ("forebay.spark.write.writer", "from forebay.client import Client\nimport pyspark.sql"),
        ("forebay.cli.operate.serve", "from forebay.broker import server"),
    ],
)
def test_an_allowed_import_is_not_reported(module: str, source: str) -> None:
    assert violations(source, module) == []


def test_a_package_without_a_rule_is_an_error() -> None:
    with pytest.raises(LookupError, match="add a line to RULES"):
        rule_of("forebay.utils")
