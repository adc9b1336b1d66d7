"""Versions of a schema are listed, and their fields are shown."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pytest

from forebay.broker.embedded import BrokerServer
from forebay.cli import run
from forebay.cli.exits import ExitCode
from forebay.client import Client

ARROW = pa.schema([("id", pa.int64()), ("name", pa.string())]).serialize().to_pybytes()
SPARK = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "at", "type": {"type": "struct", "fields": [{"name": "x", "type": "double"}]}},
        ],
    }
)


@pytest.fixture
def broker() -> Iterator[BrokerServer]:
    with BrokerServer.in_memory() as broker, Client(broker.endpoint) as client:
        client.sinks.create("orders")
        client.schemas.register("orders", ARROW, previous=0)
        client.schemas.register("orders", ARROW, previous=1, spark_schema=SPARK)
        yield broker


def test_versions_are_listed(broker: BrokerServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", "list", "orders", "-e", broker.endpoint, "-o", "json"]) == ExitCode.OK
    found = json.loads(capsys.readouterr().out)
    assert run(["schema", "list", "orders", "-e", broker.endpoint]) == ExitCode.OK

    assert [one["version"] for one in found] == [1, 2]
    assert "2 versions of the schema" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        (["orders", "1"], {"id": "int64", "name": "string"}),
        (["orders"], {"id": "long", "at": "struct", "at.x": "double"}),
    ],
)
def test_fields_of_a_version_are_those_of_spark_or_else_of_arrow(
    broker: BrokerServer, capsys: pytest.CaptureFixture[str], words: list[str], fields: dict[str, str]
) -> None:
    assert run(["schema", "show", *words, "-e", broker.endpoint, "-o", "json"]) == ExitCode.OK
    found = json.loads(capsys.readouterr().out)
    assert run(["schema", "show", *words, "-e", broker.endpoint]) == ExitCode.OK

    assert {one["name"]: one["type"] for one in found["fields"]} == fields
    out = capsys.readouterr().out
    assert [name for name in fields if name not in out] == []


def test_a_version_that_does_not_exist_is_not_found(broker: BrokerServer) -> None:
    assert run(["schema", "show", "orders", "3", "-e", broker.endpoint]) == ExitCode.NOT_FOUND


@pytest.mark.parametrize("content", ["{", "[]", '{"fields": [{"name": 1}]}'])
def test_a_schema_that_cannot_be_read_is_reported(
    broker: BrokerServer, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    with Client(broker.endpoint) as client:
        client.schemas.register("orders", ARROW, previous=2, spark_schema=content)

    assert run(["schema", "show", "orders", "-e", broker.endpoint]) == ExitCode.FAILED
    assert "version 3 cannot be read" in capsys.readouterr().err
