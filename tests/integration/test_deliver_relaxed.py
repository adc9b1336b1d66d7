"""The deliverer on a sink in RELAXED order, and its second target for what was delivered before."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Thread

import pytest

from forebay.client import Client
from forebay.client.testing import broker
from forebay.deliver import BatchLimits, Deliverer, DelivererSettings, Target
from forebay.deliver.targets.file import FileTarget
from forebay.deliver.targets.http import HttpTarget
from forebay.deliver.targets.http_settings import HttpSettings
from tests.support.calls.eventually import stats_when
from tests.support.targets.scripted_server import Answer, Request, serving

WAIT_S = 30.0


def delivered(client: Client, target: Target, resend_to: Target | None) -> None:
    """Deliver ten records, two by two, until all are settled."""
    with client.publisher("orders", page_records=2, linger_ms=0) as publisher:
        for first in range(0, 10, 2):
            publisher.send_many([b"%d" % number for number in (first, first + 1)]).result(WAIT_S)
    settings = DelivererSettings(batch=BatchLimits(records_max=2))
    deliverer = Deliverer(client, "orders", target, resend_to=resend_to, settings=settings)
    thread = Thread(target=deliverer.run, name="deliverer")
    thread.start()
    try:
        stats = stats_when(client, "orders", lambda found: found.pending() == 0)
        assert stats.identity_ok
    finally:
        deliverer.stop()
        thread.join(WAIT_S)
        assert not thread.is_alive()


@pytest.mark.parametrize("ordering", ["STRICT", "RELAXED"])
def test_records_answered_with_503_are_kept_and_redelivered_to_the_second_address(ordering: str) -> None:
    """The target answers 503: kept and resent; and with a second address, resent to that one."""

    def answer(request: Request) -> Answer:
        down = request.path.endswith("/live") and request.headers["Forebay-First-Offset"] == "4"
        return Answer(503 if down else 200)

    with broker() as running, running.client() as client, serving(answer) as server:
        client.sinks.create("orders", ordering=ordering, retry_backoff_min_s=0.01, retry_backoff_max_s=0.01)
        live, late = (HttpTarget(HttpSettings(url=f"{server.url}{path}")) for path in ("/live", "/late"))
        delivered(client, live, late)
        taken = [(one.path, one.headers.get("Forebay-Resend"), one.body.split()) for one in server.requests]

    resent = [value for path, flag, body in taken if path.endswith("/late") for value in body if flag == "true"]
    first = [value for path, flag, body in taken if path.endswith("/live") for value in body if flag is None]
    assert resent[:2] == [b"4", b"5"]
    assert sorted({*first, *resent}) == [b"%d" % number for number in range(10)]
    if ordering == "RELAXED":
        assert (resent, first) == ([b"4", b"5"], [b"%d" % number for number in range(10)])


def test_failed_records_are_redelivered_to_a_file_of_their_own(tmp_path: Path) -> None:
    def answer(request: Request) -> Answer:
        return Answer(503 if request.headers["Forebay-First-Offset"] in {"2", "6"} else 200)

    with broker() as running, running.client() as client, serving(answer) as server:
        client.sinks.create("orders", ordering="RELAXED", retry_backoff_min_s=0.01, retry_backoff_max_s=0.01)
        delivered(client, HttpTarget(HttpSettings(url=server.url)), FileTarget(tmp_path / "late.jsonl"))

    lines = [json.loads(line) for line in (tmp_path / "late-0.jsonl").read_text().splitlines()]
    assert [line["offset"] for line in lines] == [2, 3, 6, 7]
