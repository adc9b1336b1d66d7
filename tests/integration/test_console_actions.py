"""Actions of the console: previewed, confirmed, authorized, and safe from forms of other sites."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.broker.core.access.credentials import token_credential
from forebay.broker.embedded import BrokerServer
from forebay.client import Client, ClientSettings, DeliveryState, Record
from tests.support.console.pages import data, html


@pytest.fixture
def server() -> Iterator[BrokerServer]:
    with BrokerServer.in_memory(console_listen="127.0.0.1:0", console_write=True) as running:
        yield running


def confirmation(page: str) -> dict[str, str]:
    """Return the form of a preview."""
    [found] = re.findall(r'name="confirmation" value="([^"]+)"', page)
    return {"confirmation": found}


def dead_letters(client: Client, *errors: str) -> None:
    """Make a sink with dead letters of these errors."""
    client.sinks.create("orders")
    client.publish("orders", [Record(b"%d" % n) for n in range(len(errors))])
    with client.subscriber("orders") as subscriber:
        delivery = next(iter(subscriber))
        for offset, error in enumerate(errors):
            delivery.dead_letter(error, offset=offset, wait=True)


def test_serve_takes_the_option_for_actions(tmp_path: Path) -> None:
    words = ["--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--console-listen", "127.0.0.1:0"]
    command = [sys.executable, "-m", "forebay.cli", "serve", *words, "--console-write", "-o", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        with Client(ready["endpoint"]) as client:
            client.sinks.create("orders")
        with urllib.request.urlopen(f"{ready['console']}sinks/orders", timeout=30) as response:
            page = response.read().decode()
        process.terminate()

    assert "/sinks/orders/actions/pause" in page


def states(client: Client) -> set[DeliveryState]:
    """Return the states of the deliveries of the sink."""
    [subscription] = client.sinks.stats("orders").subscriptions
    return {lane.state for lane in subscription.partitions}


def test_a_sink_is_paused_and_resumed_after_a_preview(server: BrokerServer) -> None:
    with Client(server.endpoint) as client:
        client.sinks.create("orders")
        assert "/sinks/orders/actions/pause" in html(server, "/sinks/orders")
        preview = html(server, "/sinks/orders/actions/pause?text=maintenance")
        assert "Deliveries of orders to 0 connected consumers stop" in preview
        assert states(client) == {DeliveryState.FLOWING}

        assert "orders is paused" in html(server, "/sinks/orders/actions/pause", form=confirmation(preview))

        assert states(client) == {DeliveryState.PAUSED}
        assert "maintenance" in html(server, "/sinks/orders")
        html(server, "/sinks/orders/actions/resume", form=confirmation(html(server, "/sinks/orders/actions/resume")))
        assert states(client) == {DeliveryState.FLOWING}


def test_dead_letters_are_redriven_as_previewed_and_none_that_came_later(server: BrokerServer) -> None:
    with Client(server.endpoint) as client:
        dead_letters(client, "422 name", "500 down", "422 price")
        preview = html(server, "/sinks/orders/actions/redrive?text=422")
        assert "This moves 2 dead letters whose error contains &#39;422&#39; of orders out of the" in preview
        client.publish("orders", [Record(b"later")])
        with client.subscriber("orders") as subscriber:
            next(iter(subscriber)).dead_letter("422 later", wait=True)

        done = html(server, "/sinks/orders/actions/redrive", form=confirmation(preview))

        assert "Appended 2 dead letters of orders again" in done
        assert {group["error"] for group in data(server, "/sinks/orders/dead-letters.json")["groups"]} == {
            "500 down",
            "422 later",
        }


@pytest.mark.parametrize(("action", "done"), [("redrive", "Appended 1 dead"), ("purge-dead-letters", "Deleted 1 dead")])
def test_an_action_on_dead_letters_that_the_preview_did_not_examine_can_be_confirmed(
    server: BrokerServer, monkeypatch: pytest.MonkeyPatch, action: str, done: str
) -> None:
    with Client(server.endpoint) as client:
        dead_letters(client, "500 down", "422 name")
        with monkeypatch.context() as none_examined:
            none_examined.setattr("forebay.broker.runtime.dead_letters.operations.LOOKED_AT_MAX", 0)
            preview = html(server, f"/sinks/orders/actions/{action}?text=422")

        assert "0 or more dead letters whose error contains &#39;422&#39;" in preview
        assert done in html(server, f"/sinks/orders/actions/{action}", form=confirmation(preview))


def test_an_action_without_dead_letters_cannot_be_confirmed(server: BrokerServer) -> None:
    with Client(server.endpoint) as client:
        dead_letters(client, "500 down")

    preview = html(server, "/sinks/orders/actions/redrive?text=422")

    assert "0 dead letters whose error contains" in preview
    assert "<button>Redrive" not in preview


def test_a_group_of_dead_letters_has_its_own_actions(server: BrokerServer) -> None:
    error = "500 down & <out>"
    with Client(server.endpoint) as client:
        dead_letters(client, f"{error} again", error)
        page = html(server, "/sinks/orders/dead-letters")
        preview = html(server, "/sinks/orders/actions/redrive?text=500+down+%26+%3Cout%3E&match=exact")

        html(server, "/sinks/orders/actions/redrive", form=confirmation(preview))

        assert (
            'href="/sinks/orders/actions/redrive?text=500%20down%20%26%20%3Cout%3E&amp;match=exact">Redrive these'
            in page
        )
        assert "forebay dlq redrive orders --error-equals &#39;500 down &amp; &lt;out&gt;&#39;" in preview
        [left] = data(server, "/sinks/orders/dead-letters.json")["groups"]
        assert left["error"] == f"{error} again"


def test_dead_letters_are_deleted_after_a_preview(server: BrokerServer) -> None:
    with Client(server.endpoint) as client:
        dead_letters(client, "422 name", "500 down")
        preview = html(server, "/sinks/orders/actions/purge-dead-letters")
        assert "This deletes 2 dead letters of orders for good" in preview

        html(server, "/sinks/orders/actions/purge-dead-letters", form=confirmation(preview))

        assert data(server, "/sinks/orders/dead-letters.json")["count"] == 0
        assert "confirmation" not in html(server, "/sinks/orders/actions/purge-dead-letters"), "nothing is left to do"


def test_a_confirmation_is_of_one_action_and_of_one_sink(server: BrokerServer) -> None:
    with Client(server.endpoint) as client:
        for name in ("orders", "alerts"):
            client.sinks.create(name)
        form = confirmation(html(server, "/sinks/orders/actions/pause"))

        for path, sent in (
            ("/sinks/alerts/actions/pause", form),
            ("/sinks/orders/actions/resume", form),
            ("/sinks/orders/actions/pause", {"confirmation": form["confirmation"][:-4] + "AAAA"}),
            ("/sinks/orders/actions/pause", {"confirmation": ""}),
            ("/sinks/orders/actions/pause", {}),
        ):
            assert "preview it again" in html(server, path, 403, form=sent), path
        assert states(client) == {DeliveryState.FLOWING}


def test_a_sink_that_was_created_again_since_the_preview_is_left_alone(server: BrokerServer) -> None:
    with Client(server.endpoint) as client:
        client.sinks.create("orders")
        form = confirmation(html(server, "/sinks/orders/actions/pause"))
        client.sinks.delete("orders")
        client.sinks.create("orders")

        html(server, "/sinks/orders/actions/pause", 400, form=form)

        assert states(client) == {DeliveryState.FLOWING}


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}])
def test_a_form_of_another_site_changes_nothing(server: BrokerServer, headers: dict[str, str]) -> None:
    with Client(server.endpoint) as client:
        client.sinks.create("orders")
        form = confirmation(html(server, "/sinks/orders/actions/pause"))

        found = html(server, "/sinks/orders/actions/pause", 403, form=form, headers=headers)

        assert "another site" in found
        assert states(client) == {DeliveryState.FLOWING}


def test_a_large_form_is_refused(server: BrokerServer) -> None:
    with Client(server.endpoint) as client:
        client.sinks.create("orders")

    assert "at most" in html(server, "/sinks/orders/actions/pause", 413, form={"confirmation": "x" * 70_000})


def test_a_console_has_no_actions_by_default() -> None:
    with BrokerServer.in_memory(console_listen="127.0.0.1:0") as server, Client(server.endpoint) as client:
        client.sinks.create("orders")

        assert "actions" not in html(server, "/sinks/orders")
        html(server, "/sinks/orders/actions/pause", 404)
        html(server, "/sinks/orders/actions/pause", 404, form={"confirmation": "x"})


def test_an_action_needs_its_right_and_is_audited(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    viewer, manager = "v" * 43, "m" * 43
    lines = [
        token_credential("viewer", viewer, ["view=*", "replay=*"]),
        token_credential("manager", manager, ["view=*", "manage=*"]),
    ]
    tokens = tmp_path / "tokens"
    tokens.write_text("".join(f"{one.line}\n" for one in lines))
    with (
        caplog.at_level(logging.INFO, logger="forebay.audit"),
        BrokerServer.in_memory(
            console_listen="127.0.0.1:0", console_write=True, token_hashes_file=str(tokens)
        ) as server,
    ):
        with Client(server.endpoint, settings=ClientSettings(token=manager)) as client:
            client.sinks.create("orders")
        assert "lacks the right manage" in html(server, "/sinks/orders/actions/pause", 403, token=viewer)
        form = confirmation(html(server, "/sinks/orders/actions/pause", token=manager))
        assert "lacks the right manage" in html(server, "/sinks/orders/actions/pause", 403, token=viewer, form=form)
        assert "is paused" in html(server, "/sinks/orders/actions/pause", token=manager, form=form)

    lines_of = [record.getMessage() for record in caplog.records if "PauseSink" in record.getMessage()]
    assert len(lines_of) == 1
    assert "principal='manager'" in lines_of[0] or "principal=manager" in lines_of[0]
    assert "peer=console:127.0.0.1" in lines_of[0]
