"""The parts of Holdfast import each other in the directions of tests/contract/import_rules.py only."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.contract.import_rules import modules, rule_of, violations

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
        ("holdfast.broker.core.cursors", "import threading"),
        ("holdfast.broker.core.cursors", "import os.path"),
        ("holdfast.broker.core.cursors", "import rocksdict"),
        ("holdfast.broker.core.cursors", "from holdfast.broker.storage import keys"),
        ("holdfast.broker.core.cursors", "from ..runtime import clock"),
        ("holdfast.broker.core.leases", "from datetime import datetime\nNOW = datetime.now()"),
        ("holdfast.broker.core.leases", "import datetime\nNOW = datetime.datetime.now(datetime.UTC)"),
        ("holdfast.broker.core.leases", "def read() -> None:\n    open('file')"),
        ("holdfast.broker.storage.memory", "import rocksdict"),
        ("holdfast.broker.storage.rocks", "from holdfast.broker.runtime import clock"),
        ("holdfast.broker.runtime.clock", "import grpc"),
        ("holdfast.broker.runtime.clock", "from opentelemetry.sdk.metrics import MeterProvider"),
        ("holdfast.broker.runtime.clock", "from holdfast.broker.storage import memory"),
        ("holdfast.broker.rpc.sinks", "from holdfast.broker.storage import memory"),
        ("holdfast.broker.rpc.sinks", "from holdfast.broker import server"),
        ("holdfast.broker.settings", "import grpc.aio"),
        ("holdfast.broker.telemetry", "from holdfast.v1 import sink_pb2"),
        ("holdfast.broker.telemetry", "from holdfast.broker import server"),
        ("holdfast.client.channel", "from holdfast.broker import settings"),
        ("holdfast.client.channel", "def late() -> None:\n    import holdfast.broker.server"),
        ("holdfast.client.testing", "from holdfast.broker.server import Server"),
        ("holdfast.client.testing", "def late() -> None:\n    import holdfast.broker.core"),
        ("holdfast.deliver.loop", "import grpc"),
        ("holdfast.deliver.loop", "import importlib\nimportlib.import_module('holdfast.v1')"),
        ("holdfast.spark.writer", "import grpc"),
        (
            "holdfast.spark.writer",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import holdfast.v1",
        ),
        ("holdfast.spark.writer", "from holdfast import broker"),
        ("holdfast.spark", "from .. import v1"),
        ("pyspark_holdfast", "import holdfast.client"),
    ],
)
def test_a_forbidden_import_or_call_is_found(module: str, source: str) -> None:
    is_package = module in {"holdfast.spark", "pyspark_holdfast"}

    assert len(violations(source, module, is_package=is_package)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("holdfast.broker.core.cursors", "from holdfast.broker.core.records import Offset\nimport bisect"),
        ("holdfast.broker.core.cursors", "from datetime import timedelta"),
        ("holdfast.broker.storage.rocks", "import rocksdict\nfrom holdfast.broker.storage import keys"),
        ("holdfast.broker.runtime.clock", "import asyncio\nfrom opentelemetry import metrics"),
        ("holdfast.broker.rpc.sinks", "import grpc\nfrom holdfast.v1 import sink_pb2"),
        ("holdfast.broker.server", "from holdfast.broker.storage.rocks import RocksStore"),
        ("holdfast.client.testing", "def late() -> None:\n    from holdfast.broker.server import Server"),
        ("holdfast.spark.writer", "from holdfast.client import Client\nimport pyspark.sql"),
        ("holdfast.cli.serve", "from holdfast.broker import server"),
    ],
)
def test_an_allowed_import_is_not_reported(module: str, source: str) -> None:
    assert violations(source, module) == []


def test_a_package_without_a_rule_is_an_error() -> None:
    with pytest.raises(LookupError, match="add a line to RULES"):
        rule_of("holdfast.utils")
