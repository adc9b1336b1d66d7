"""The console over real HTTP: pages, their JSON and their events, for those who may see them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.broker.console.app import WATCHES_MAX
from forebay.broker.console.pages.overview import BUSIEST
from forebay.broker.core.access.credentials import token_credential
from forebay.broker.embedded import BrokerServer
from forebay.client import Client, ClientSettings, Record
from tests.support.console.pages import EVIL, asked, data, html, next_event

VIEWER = "v" * 43


@pytest.fixture
def server() -> Iterator[BrokerServer]:
    with BrokerServer.in_memory(console_listen="127.0.0.1:0") as running:
        yield running


def test_the_overview_says_what_waits_for_whom_and_why(server: BrokerServer) -> None:
    with Client(server.endpoint) as client:
        client.sinks.create("orders", partitions=2)
        client.publish("orders", [Record(b"x") for _ in range(7)], partition=1)
        client.sinks.create("alerts")
        client.publish("alerts", [Record(b"x")])
        client.sinks.pause("alerts", "maintenance")

    page, found = html(server, "/"), data(server, "/overview.json")

    assert "orders: 7 records wait for &#39;default&#39;, and no consumer is connected." in page
    assert f"forebay status --endpoint {server.endpoint}" in page
    assert (found["waiting"], found["broker"]["state"], found["broker"]["sinks"]) == (8, "serving", 2)
    assert [(need["subject"], need["severity"]) for need in found["needs"]] == [
        ("orders", "warning"),
        ("alerts", "notice"),
    ]
    assert [line["figures"]["state"] for line in found["busiest"]] == ["no consumer", "paused"]
    assert found["busiest"][0]["figures"]["oldest_age_s"] > 0
    assert {"empty_in_s", "full_in_s"} <= found["busiest"][0]["figures"].keys()


def test_the_list_of_sinks_has_lines_of_what_came_in_and_of_what_waits(server: BrokerServer) -> None:
    with Client(server.endpoint) as client, asked(server, "/events/sinks") as events:
        client.sinks.create("orders")
        client.publish("orders", [Record(b"x") for _ in range(3)])
        while "Accepted records per second of orders" not in next_event(events)[1]:
            pass

    [line] = data(server, "/sinks.json")["sinks"]
    assert len(line["into"]) == len(line["waiting"]) >= 2
    assert "Waiting records of orders: now 3, at most 3 in" in html(server, "/sinks")


def test_the_list_of_sinks_has_orders_and_pages(server: BrokerServer) -> None:
    with Client(server.endpoint) as client:
        for number in range(120):
            client.sinks.create(f"sink-{number:03}")
        client.publish("sink-050", [Record(b"x")])

    first = data(server, "/sinks.json")
    assert [line["figures"]["name"] for line in first["sinks"]][:2] == ["sink-050", "sink-000"]
    assert (len(first["sinks"]), first["next"]) == (100, "order=waiting&first=100")
    assert len(data(server, f"/sinks.json?{first['next']}")["sinks"]) == 20
    assert data(server, "/sinks.json?order=name")["sinks"][0]["figures"]["name"] == "sink-000"
    assert 'rel="next" href="/sinks?order=waiting&amp;first=100"' in html(server, "/sinks")


@pytest.mark.parametrize("query", ["order=colour", "first=-1", "first=x", "first=99999999999999999999"])
def test_an_invalid_query_is_answered_with_the_allowed_values(server: BrokerServer, query: str) -> None:
    assert "must be" in html(server, f"/sinks?{query}", 400)


def test_the_page_of_a_sink_has_accounts_that_add_up_and_its_settings(server: BrokerServer) -> None:
    with Client(server.endpoint) as client:
        client.sinks.create("orders", partitions=2, ack_deadline_s=7)
        client.publish("orders", [Record(b"x") for _ in range(5)], partition=0)
        with client.subscriber("orders") as subscriber:
            delivery = next(iter(subscriber))
            delivery.ack(wait=True)

    found = data(server, "/sinks/orders.json")
    page = html(server, "/sinks/orders")

    [subscription] = found["stats"]["subscriptions"]
    assert [lane["acked"] for lane in subscription["partitions"]] == ["5", "0"]
    assert found["settings"]["ack_deadline"] == "7s"
    assert "5 settled, 0 in gaps, 0 in flight, 0 waiting" in page
    origins = {one["name"]: one["origin"] for one in found["setting_lines"]}
    assert (origins["ack_deadline_s"], origins["max_attempts"]) == ("sink", "built-in default")
    assert "retained pages are removed before an append is rejected" in page
    assert "<code>DROP_OLDEST</code> weakens" in page
    assert "NO" not in page


def test_the_oldest_record_is_that_of_all_sinks_and_not_of_the_busiest(server: BrokerServer) -> None:
    with Client(server.endpoint) as client:
        client.sinks.create("old")
        client.publish("old", [Record(b"x")])
        written = time.monotonic()
        for number in range(BUSIEST):
            client.sinks.create(f"busy-{number}")
            client.publish(f"busy-{number}", [Record(b"x")] * 5)

    found = data(server, "/overview.json")

    assert "old" not in {line["figures"]["name"] for line in found["busiest"]}
    others = max(line["figures"]["oldest_age_s"] for line in found["busiest"])
    assert others < found["oldest_age_s"] <= time.monotonic() - written + 1


def test_a_default_of_the_file_is_the_origin_of_a_setting() -> None:
    defaults = {"max_attempts": 9, "ack_deadline_s": 12}
    with (
        BrokerServer.in_memory(console_listen="127.0.0.1:0", sink_defaults=defaults) as running,
        Client(running.endpoint) as client,
    ):
        client.sinks.create("orders", max_attempts=9, ack_deadline_s=30)
        lines = data(running, "/sinks/orders.json")["setting_lines"]
    origins = {one["name"]: one["origin"] for one in lines}

    assert origins["max_attempts"] == "[sink_defaults]"
    assert origins["ack_deadline_s"] == "sink"
    assert origins["ordering"] == "built-in default"


def test_the_disk_share_is_shown_relative_to_the_space_that_fits(server: BrokerServer) -> None:
    with Client(server.endpoint) as client:
        client.sinks.create("orders")
        client.publish("orders", [Record(b"x" * 1_000) for _ in range(1_000)])

    found = data(server, "/overview.json")

    room = found["broker"]["disk_free"] - found["broker"]["disk_reserve"]
    assert found["stored_bytes"] > 1_000_000
    assert found["disk_share"] == pytest.approx(found["stored_bytes"] / (found["stored_bytes"] + room))
    assert "Stored on disk" in html(server, "/")


def test_markup_and_control_characters_in_stored_texts_are_escaped_on_the_pages(server: BrokerServer) -> None:
    with Client(server.endpoint) as client:
        client.sinks.create("orders")
        client.publish("orders", [Record(b"x")])
        client.sinks.pause("orders", EVIL)

    for path in ("/", "/sinks", "/sinks/orders", f"/sinks/{'%3Cscript%3E'}"):
        page = html(server, path, 404 if "%3C" in path else 200)
        assert "<script>alert" not in page
        assert "\x1b" not in page


def test_records_are_shown_from_an_offset_on_as_text(server: BrokerServer) -> None:
    with Client(server.endpoint) as client:
        client.sinks.create("orders", partitions=2)
        records = [Record(b'{"n": %d}' % n, key=b"k", headers=[("unit", b"C")]) for n in range(60)]
        client.publish("orders", [*records, Record(EVIL.encode(), key=EVIL.encode())], partition=1)

    first = data(server, "/sinks/orders/records.json?partition=1")
    last = html(server, "/sinks/orders/records?partition=1&offset=50")

    assert [record["offset"] for record in first["records"]][-1] == "49"
    assert first["records"][3]["value"] == '{"n": 3}'
    assert "unit: C" in last
    assert "<script>alert" not in last
    assert "\x1b" not in last
    assert "No records from here on" in html(server, "/sinks/orders/records")
    assert "the sink has 0 to 1" in html(server, "/sinks/orders/records?partition=9", 400)
    assert "offset must be a number" in html(server, "/sinks/orders/records?offset=-1", 400)


def test_dead_letters_are_grouped_by_the_words_of_the_target(server: BrokerServer) -> None:
    with Client(server.endpoint) as client:
        client.sinks.create("orders")
        client.publish("orders", [Record(b"%d" % n) for n in range(3)])
        with client.subscriber("orders") as subscriber:
            delivery = next(iter(subscriber))
            for offset, reason in ((0, EVIL), (1, "422 of no use"), (2, EVIL)):
                delivery.dead_letter(reason, offset=offset, wait=True)

    found = data(server, "/sinks/orders/dead-letters.json")
    page = html(server, "/sinks/orders/dead-letters")

    assert [(group["error"], group["count"]) for group in found["groups"]] == [(EVIL, 2), ("422 of no use", 1)]
    assert [letter["origin_offset"] for letter in found["groups"][0]["letters"]] == [0, 2]
    assert "422 of no use" in page
    assert "<script>alert" not in page
    assert "\x1b" not in page


def test_dead_letters_that_are_too_large_to_be_counted_are_more(server: BrokerServer) -> None:
    with Client(server.endpoint) as client:
        client.sinks.create("orders")
        client.publish("orders", [Record(b"x" * 200_000) for _ in range(50)])
        with client.subscriber("orders") as subscriber:
            for delivery in subscriber:
                delivery.dead_letter("422", wait=True)
                if delivery.last_offset == 49:
                    break

    found = data(server, "/sinks/orders/dead-letters.json")

    assert 0 < found["count"] < 50
    assert found["more"]
    assert f"{found['count']} dead letters or more" in html(server, "/sinks/orders/dead-letters")


def test_every_answer_forbids_scripts_of_others(server: BrokerServer) -> None:
    for path in ("/", "/overview.json", "/static/console.js", "/sinks/missing", "/nowhere"):
        with asked(server, path) as response:
            policy = response.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy, path
            assert "unsafe" not in policy
            assert response.headers["X-Content-Type-Options"] == "nosniff"


def test_an_open_page_is_updated_after_each_sample(server: BrokerServer) -> None:
    with Client(server.endpoint) as client, asked(server, "/events/overview") as events:
        client.sinks.create("orders")
        client.publish("orders", [Record(b"x") for _ in range(3)])
        while True:
            name, content = next_event(events)
            assert name == "message"
            if "orders: 3 records wait" in content:
                break


def test_the_page_of_a_sink_that_is_deleted_says_so(server: BrokerServer) -> None:
    with Client(server.endpoint) as client:
        client.sinks.create("orders")
        with asked(server, "/events/sinks/orders") as events:
            client.sinks.delete("orders")
            while (found := next_event(events))[0] == "message":
                pass

    assert found == ("gone", "There is no sink 'orders' that you may see.")


def test_a_stop_of_the_broker_ends_open_pages(server: BrokerServer) -> None:
    with asked(server, "/events/overview") as events:
        server.stop()

        assert events.read() is not None


def test_more_open_pages_than_allowed_are_reported(server: BrokerServer) -> None:
    held = [asked(server, "/events/overview") for _ in range(WATCHES_MAX)]
    try:
        for one in held:
            assert one.__enter__().status == 200
        assert f"{WATCHES_MAX} pages are open" in html(server, "/events/overview", 503)
        assert "Overview" in html(server, "/")
    finally:
        for one in held:
            one.__exit__(None, None, None)


def test_a_token_shows_the_sinks_of_its_rights_and_no_other(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    admin = "a" * 43
    lines = [token_credential("viewer", VIEWER, ["view=orders"]), token_credential("admin", admin, ["admin=*"])]
    tokens.write_text("".join(f"{one.line}\n" for one in lines))
    with BrokerServer.in_memory(console_listen="127.0.0.1:0", token_hashes_file=str(tokens)) as server:
        with Client(server.endpoint, settings=ClientSettings(token=admin)) as client:
            client.sinks.create("orders")
            client.sinks.create("secret")
            client.publish("secret", [Record(b"x") for _ in range(9)])
        assert "demands a token" in html(server, "/", 401)
        found = data(server, "/overview.json", token=VIEWER)
        assert ([line["figures"]["name"] for line in found["busiest"]], found["waiting"]) == (["orders"], 0)
        assert (found["needs"], found["waiting_history"]) == ([], [])
        assert "secret" not in html(server, "/sinks", token=VIEWER)
        assert "There is no sink" in html(server, "/sinks/secret", 404, token=VIEWER)
        assert "lacks the right replay" in html(server, "/sinks/orders/records", 403, token=VIEWER)
        assert "lacks the right replay" in html(server, "/sinks/orders/dead-letters", 403, token=VIEWER)
        assert data(server, "/overview.json", token=admin)["waiting"] == 9


def test_the_connections_page_says_who_consumes_what(server: BrokerServer) -> None:
    with Client(server.endpoint) as client:
        client.sinks.create("orders")
        client.publish("orders", [Record(b"x")])
        with client.subscriber("orders", consumer_id="worker-1") as records:
            next(records)
            page, found = html(server, "/connections"), data(server, "/connections.json")

    assert "worker-1" in page
    assert f"forebay connections --endpoint {server.endpoint}" in page
    [stream] = [one for connection in found["connections"] for one in connection["streams"]]
    assert (stream["method"], stream["client_id"], stream["in_flight"]) == ("Deliver", "worker-1", "1")
    assert html(server, "/connections?after=%C3%A9", status=400)
