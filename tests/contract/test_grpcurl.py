"""A person with grpcurl and no file of ours finds every call, types records as text, and sees them.

Skipped where grpcurl is missing, unless FOREBAY_REQUIRE_GRPCURL is set; `make grpcurl` builds it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from forebay.broker.embedded import BrokerServer
from tests.support.rules.services import METHODS

pytestmark = pytest.mark.grpcurl
TOOLS: Final = Path(__file__).resolve().parents[2] / ".tools" / "bin"
FOUND: Final = shutil.which("grpcurl", path=f"{TOOLS}{os.pathsep}{os.environ.get('PATH', '')}")


class Grpcurl:
    """The command, for one broker."""

    def __init__(self, program: str, endpoint: str) -> None:
        self._program, self._endpoint = program, endpoint

    def run(self, *words: str, data: object = None) -> str:
        """Return the standard output; an error of the command fails the test with its text."""
        given = [] if data is None else ["-d", json.dumps(data)]
        ended = self.ended(*given, self._endpoint, *words)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def call(self, rpc: str, **request: Any) -> Any:
        """Return the response to a call, as JSON."""
        return json.loads(self.run(f"forebay.v1.{rpc}", data=request))

    def ended(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Return the ended process."""
        command = [self._program, "-plaintext", "-max-time", "20", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerServer]:
    with BrokerServer.in_memory() as server:
        yield server


@pytest.fixture
def grpcurl(broker: BrokerServer) -> Grpcurl:
    if FOUND is None:
        assert "FOREBAY_REQUIRE_GRPCURL" not in os.environ, "grpcurl is missing; make grpcurl builds it"
        pytest.skip("grpcurl is missing; make grpcurl builds it")
    return Grpcurl(FOUND, broker.endpoint)


def test_it_lists_every_call_of_every_service(grpcurl: Grpcurl) -> None:
    services = {method.containing_service.full_name for method in METHODS.values()}
    listed = set(grpcurl.run("list").split())

    assert services <= listed
    for service in services:
        wanted = {m.full_name for m in METHODS.values() if m.containing_service.full_name == service}
        assert set(grpcurl.run("list", service).split()) == wanted


@pytest.mark.parametrize(
    ("symbol", "text"),
    [
        ("forebay.v1.BufferService.PublishBatch", "rpc PublishBatch ( .forebay.v1.PublishBatchRequest )"),
        ("forebay.v1.BufferService.Deliver", "( stream .forebay.v1.DeliverRequest )"),
        ("forebay.v1.Record", "optional bytes key = 2;"),
        ("forebay.v1.Record.text", "string text = 5;"),
        ("forebay.v1.Durability", "DURABILITY_DISK = 3;"),
        ("grpc.reflection.v1.ServerReflection.ServerReflectionInfo", ".grpc.reflection.v1.ServerReflectionRequest"),
    ],
)
def test_it_describes_a_symbol(grpcurl: Grpcurl, symbol: str, text: str) -> None:
    assert text in grpcurl.run("describe", symbol)


def test_records_published_as_text_are_shown_as_text_in_a_peek_of_all_partitions(grpcurl: Grpcurl) -> None:
    grpcurl.call("SinkService/CreateSink", name="typed", settings={"partitions": 3})
    for partition in range(3):
        record = {"text": f"grün {partition}", "keyText": "Köln", "headers": [{"key": "unit", "text": "°C"}]}
        grpcurl.call("BufferService/PublishBatch", sink="typed", partition=partition, records=[record])

    shown = grpcurl.call("BufferService/Peek", sink="typed", allPartitions=True)["records"]

    assert [(one.get("partition", 0), one["key"], one["value"], one["headers"]) for one in shown] == [
        (partition, "Köln", f"grün {partition}", {"unit": "°C"}) for partition in range(3)
    ]


def test_an_error_names_its_reason_and_its_facts(grpcurl: Grpcurl, broker: BrokerServer) -> None:
    words = ("-d", '{"name": "absent"}', broker.endpoint, "forebay.v1.SinkService/GetSink")

    ended = grpcurl.ended(*words)

    assert ended.returncode != 0
    assert '"reason":"SINK_NOT_FOUND"' in ended.stderr.replace(" ", "")
    assert '"sink":"absent"' in ended.stderr.replace(" ", "")
