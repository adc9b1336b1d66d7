"""Pages of the console about records, deliveries, Spark writes, schemas and damage."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, use_span

from forebay.broker.console.pages.tail import RECORDS_PER_POLL
from forebay.broker.core.access.credentials import token_credential
from forebay.broker.embedded import BrokerServer
from forebay.broker.settings import load
from forebay.cli import run
from forebay.cli.exits import ExitCode
from forebay.client import Client, ClientSettings, EpochCommit, Record, Stage, arrow
from tests.support.console.pages import EVIL, asked, data, html, next_event


@pytest.fixture
def server() -> Iterator[BrokerServer]:
    with BrokerServer.in_memory(console_listen="127.0.0.1:0") as running:
        yield running


def test_deliveries_say_who_consumes_and_what_failed(server: BrokerServer) -> None:
    with Client(server.endpoint) as client:
        for name in ("orders", "alerts", "unused"):
            client.sinks.create(name)
        client.publish("orders", [Record(b"x") for _ in range(3)])
        client.publish("alerts", [Record(b"x")])
        with (
            client.subscriber("orders", consumer_id="worker-1", program="shipper/7 <b>") as orders,
            client.subscriber("alerts", consumer_id="worker-2") as alerts,
        ):
            next(iter(orders)).ack(wait=True)
            client.publish("orders", [Record(b"x") for _ in range(3)])
            next(iter(orders))
            next(iter(alerts)).nack(delay_s=60.0, reason=EVIL, wait=True)
            page, found = html(server, "/deliveries"), data(server, "/deliveries.json")

    by_sink = {one["sink"]: one for one in found["deliveries"]}
    assert list(by_sink) == ["alerts", "orders"], "what needs attention is first, what was never used is left out"
    assert (by_sink["alerts"]["state"], by_sink["alerts"]["reason"]) == ("backing off", EVIL)
    assert 50 < by_sink["alerts"]["retry_in_s"] <= 60
    assert (by_sink["orders"]["in_flight"], by_sink["orders"]["clients"]) == (3, ["worker-1"])
    assert by_sink["orders"]["programs"] == ["shipper/7 <b>"]
    assert sum(by_sink["orders"]["latency"]) == 1
    assert sum(by_sink["alerts"]["latency"]) == 0
    assert by_sink["alerts"]["programs"][0].startswith("forebay-python/")
    assert "worker-1" in page
    assert "shipper/7 &lt;b&gt;" in page
    assert "Pages of orders default by time" in page
    assert "<script>alert" not in page


def test_a_delivery_has_the_health_of_its_own_subscription(server: BrokerServer) -> None:
    with Client(server.endpoint) as client, asked(server, "/events/deliveries") as events:
        client.sinks.create("orders")
        client.subscriptions.create("orders", "audit")
        client.publish("orders", [Record(b"x") for _ in range(3)])
        with client.subscriber("orders", subscription="audit", consumer_id="auditor") as audit:
            next(iter(audit)).ack(wait=True)
            while "orders default: at most 3 waiting records" not in next_event(events)[1]:
                pass
            page, found = html(server, "/deliveries"), data(server, "/deliveries.json")["deliveries"]

    by_name = {one["subscription"]: one["day"][-1] for one in found}
    assert (by_name["default"]["waiting"], by_name["default"]["state"]) == (3, "no consumer")
    assert by_name["audit"]["state"] in {"flowing", "idle"}
    assert "no consumer for 15 min" in page
    assert "orders audit: at most" in page


def test_a_sink_shows_its_last_day(server: BrokerServer) -> None:
    with Client(server.endpoint) as client, asked(server, "/events/sinks/orders", headers={}) as none:
        assert none.status == 404
        client.sinks.create("orders")
        client.publish("orders", [Record(b"x") for _ in range(3)])
        with asked(server, "/events/overview") as events:
            while "orders: 3 records wait" not in next_event(events)[1]:
                pass

    [span] = data(server, "/sinks/orders.json")["day"][-1:]

    assert (span["waiting"], span["state"]) == (3, "no consumer")
    assert "at most 3 waiting records" in html(server, "/sinks/orders")


def test_records_are_found_by_time_and_by_text_and_shown_byte_by_byte(server: BrokerServer) -> None:
    with Client(server.endpoint) as client:
        client.sinks.create("orders")
        client.publish("orders", [Record(b"order %d" % n, key=b"k%d" % n) for n in range(120)])

    found = data(server, "/sinks/orders/records.json?contains=order%2011")
    page = html(server, "/sinks/orders/records?contains=k7")
    later = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%S")

    assert [one["offset"] for one in found["records"]] == ["11", *(str(n) for n in range(110, 120))]
    assert "11 of 120 examined records match" in page
    assert "000000  6f 72 64 65 72 20 30" in html(server, "/sinks/orders/records?as=hex")
    assert len(data(server, "/sinks/orders/records.json?since=2020-01-01")["records"]) == 50
    assert data(server, f"/sinks/orders/records.json?since={later}")["records"] == []
    assert "since must be a time such as" in html(server, "/sinks/orders/records?since=noon", 400)
    assert "as must be one of json, text, hex, rows" in html(server, "/sinks/orders/records?as=xml", 400)
    assert "at most 200" in html(server, f"/sinks/orders/records?contains={'x' * 201}", 400)


def test_records_without_a_waiting_one_begin_at_the_end_of_what_was_settled(server: BrokerServer) -> None:
    with Client(server.endpoint) as client:
        client.sinks.create("orders")
        client.publish("orders", [Record(b"x") for _ in range(3)])
        with client.subscriber("orders") as subscriber:
            next(iter(subscriber)).ack(wait=True)

    found, page = data(server, "/sinks/orders/records.json"), html(server, "/sinks/orders/records")

    assert (found["records"], found["first"], found["end"], found["next"]) == ([], 3, 3, "")
    assert "--offset 3" in page
    assert "Later" not in page


def test_records_are_found_by_their_key_alone(server: BrokerServer) -> None:
    with Client(server.endpoint) as client:
        client.sinks.create("orders")
        client.publish("orders", [Record(b"k7", key=b"k%d" % (n % 80)) for n in range(120)])

    found = data(server, "/sinks/orders/records.json?key=k7")
    page = html(server, "/sinks/orders/records?key=k7&contains=k7")

    assert [one["offset"] for one in found["records"]] == ["7", "87"]
    assert "2 of 120 examined records match" in page
    assert f"forebay peek orders --partition 0 --offset 0 --count 120 --endpoint {server.endpoint}" in page
    assert "/sinks/orders/records.json?partition=0&amp;key=k7&amp;contains=k7&amp;offset=0" in page
    assert "at most 200" in html(server, f"/sinks/orders/records?key={'x' * 201}", 400)


def test_rows_with_a_schema_and_objects_are_a_table(server: BrokerServer) -> None:
    rows = pa.RecordBatch.from_pylist([{"id": 1, "name": EVIL}, {"id": 2, "name": None}])
    with Client(server.endpoint) as client:
        for sink in ("rows", "objects"):
            client.sinks.create(sink)
        client.schemas.register("rows", arrow.encode_schema(rows.schema), previous=0)
        with client.publisher("rows") as publisher:
            publisher.send_page(arrow.page(rows, 1), partition=0).result(20)
        at = datetime(2026, 3, 1, 12, 30, 15, tzinfo=UTC)
        first = Record(b'{"a": {"b": 1}}', headers=[("unit", EVIL.encode()), ("zone", b"C")], event_time=at)
        client.publish("objects", [first, Record(b"no object", headers=[("kind", b"other")]), Record(b'{"c": true}')])

    typed, objects = (html(server, f"/sinks/{sink}/records?as=rows") for sink in ("rows", "objects"))

    assert '<th scope="col" class="field">id</th><th scope="col" class="field">name</th>' in typed
    assert typed.count("<time datetime=") == 2, "each row has the time at which it was accepted"
    assert "<script>alert" not in typed
    assert '<th scope="col" class="field">a</th><th scope="col" class="field">c</th>' in objects
    assert "2026-03-01 12:30:15 UTC" in objects
    assert "<div>zone: C</div>" in objects
    assert "<div>kind: other</div>" in objects
    assert "<script>alert" not in objects
    assert "no row, text:</span> no object" in objects


def test_a_record_leads_to_its_trace() -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    url, provider = "https://traces.example/t/{trace_id}?a=1&b=2", TracerProvider()
    with (
        BrokerServer.in_memory(console_listen="127.0.0.1:0", console_trace_url=url) as server,
        Client(server.endpoint) as client,
    ):
        client.sinks.create("orders")
        client.publish("orders", [Record(b"x")])
        untraced = html(server, "/sinks/orders/explain?offset=0")
        parent = NonRecordingSpan(SpanContext(int(trace, 16), 1, is_remote=True, trace_flags=TraceFlags(1)))
        with use_span(parent), provider.get_tracer("test").start_as_current_span("publish"):
            client.publish("orders", [Record(b"y")])
        page, found = (html(server, "/sinks/orders/explain?offset=1"), client.sinks.explain("orders", 1))

    assert "traces.example" not in untraced
    assert f'href="https://traces.example/t/{trace}?a=1&amp;b=2"' in page
    assert found.trace_id == trace


def test_a_record_is_explained(server: BrokerServer) -> None:
    with Client(server.endpoint) as client:
        client.sinks.create("orders")
        client.publish("orders", [Record(b"x"), Record(b"y")])

    page = html(server, "/sinks/orders/explain?partition=0&offset=1")

    assert "accepted, in the page of offsets 0 to 1" in page
    assert f"forebay explain orders 1 --partition 0 --endpoint {server.endpoint}" in page
    assert data(server, "/sinks/orders/explain.json?partition=0&offset=1")["records_before"] == "1"
    assert "partition" in html(server, "/sinks/orders/explain?partition=9&offset=1", 400)
    assert "/sinks/orders/explain?partition=0&amp;offset=1" in html(server, "/sinks/orders/records")


def test_a_tail_shows_what_is_published_while_it_is_open(server: BrokerServer) -> None:
    with Client(server.endpoint) as client:
        client.sinks.create("orders", partitions=2)
        client.publish("orders", [Record(b"before")])
        with asked(server, "/events/sinks/orders/tail?contains=wanted") as events:
            client.publish("orders", [Record(b"wanted %d" % n) for n in range(3)], partition=1)
            client.publish("orders", [Record(b"other"), Record(EVIL.encode())], partition=0)
            content = ""
            while "5 records since" not in content:
                name, content = next_event(events)
                assert name == "message"

    assert content.index("wanted 2") < content.index("wanted 0")
    assert "other" not in content
    assert "before" not in content
    assert "0 records since" in html(server, "/sinks/orders/tail")
    assert "the sink has 0 to 1" in html(server, "/sinks/orders/tail?partition=2", 400)


def test_a_tail_has_what_came_between_the_page_and_its_first_event(server: BrokerServer) -> None:
    with Client(server.endpoint) as client:
        client.sinks.create("orders", partitions=2)
        client.publish("orders", [Record(b"before")], partition=1)
        opened = data(server, "/sinks/orders/tail.json")
        client.publish("orders", [Record(b"between")], partition=1)
        with asked(server, "/events/sinks/orders/tail?after=0_1") as events:
            _, content = next_event(events)
        later = data(server, "/sinks/orders/tail.json?after=0_1")

    assert (opened["after"], opened["records"]) == ([0, 1], [])
    assert "between" in content
    assert "before" not in content
    assert ([one["value"] for one in later["records"]], later["after"]) == (["between"], [0, 2])
    for wrong in ("x", "1_-2", "1" * 20):
        assert "after must be offsets" in html(server, f"/sinks/orders/tail?after={wrong}", 400)


def test_a_tail_counts_what_came_too_fast_for_it(server: BrokerServer) -> None:
    with Client(server.endpoint) as client:
        client.sinks.create("orders")
        with asked(server, "/events/sinks/orders/tail") as events:
            client.publish("orders", [Record(b"x%d" % n) for n in range(RECORDS_PER_POLL + 50)])
            _, content = next_event(events)

    assert f"{RECORDS_PER_POLL + 50} records since" in content
    assert "50 of them left out for the rate" in content
    assert f"x{RECORDS_PER_POLL + 49}" in content


def test_a_tail_counts_rows_that_were_too_large_for_it(server: BrokerServer) -> None:
    rows = pa.RecordBatch.from_pylist([{"text": "x" * 200_000}] * 100)
    with Client(server.endpoint) as client:
        client.sinks.create("rows")
        client.schemas.register("rows", arrow.encode_schema(rows.schema), previous=0)
        with client.publisher("rows") as publisher:
            publisher.send_page(arrow.page(rows, 1, compression="zstd"), partition=0).result(20)

    found = data(server, "/sinks/rows/tail.json?after=0")
    page = html(server, "/sinks/rows/tail?after=0")

    assert (found["seen"], len(found["records"]), found["skipped"]) == (100, 32, 68)
    assert "68 of them left out for the rate or their size" in page


def test_a_tail_does_not_count_gaps_as_left_out(server: BrokerServer) -> None:
    with Client(server.endpoint) as client:
        client.sinks.create("orders")
        client.publish("orders", [Record(b"x") for _ in range(5)])
        client.sinks.purge("orders")

    assert data(server, "/sinks/orders/tail.json?after=0")["skipped"] == 0


def test_a_tail_continues_after_records_that_a_consumer_has_settled(server: BrokerServer) -> None:
    with Client(server.endpoint) as client:
        client.sinks.create("orders", buffer_page_size=1)
        with asked(server, "/events/sinks/orders/tail?after=0") as events:
            client.publish("orders", [Record(b"settled") for _ in range(4)])
            with client.subscriber("orders") as subscriber:
                for delivery in subscriber:
                    delivery.ack(wait=True)
                    if delivery.last_offset == 3:
                        break
            client.publish("orders", [Record(b"waiting") for _ in range(3)])
            content = ""
            while "waiting" not in content:
                name, content = next_event(events)
                assert name == "message"
        found = data(server, "/sinks/orders/tail.json?after=0")
        page = html(server, "/sinks/orders/tail?after=0")

    assert (found["seen"], found["removed"], found["skipped"]) == (7, 4, 0)
    assert [one["value"] for one in found["records"]] == ["waiting"] * 3
    assert "7 records since the page was opened, 4 settled and removed before they were read" in page


def test_a_tail_may_be_slower(server: BrokerServer) -> None:
    with Client(server.endpoint) as client:
        client.sinks.create("orders")
        with asked(server, "/events/sinks/orders/tail?rate=3") as events:
            client.publish("orders", [Record(b"x%d" % n) for n in range(10)])
            _, content = next_event(events)

    assert "10 records since" in content
    assert "7 of them left out for the rate" in content
    assert "x7" in content
    assert "x6" not in content
    assert f"rate = 0: must be 1 to {RECORDS_PER_POLL}" in html(server, "/sinks/orders/tail?rate=0", 400)


def test_a_tail_ends_with_its_sink(server: BrokerServer) -> None:
    with Client(server.endpoint) as client:
        client.sinks.create("orders")
        with asked(server, "/events/sinks/orders/tail") as events:
            client.sinks.delete("orders")
            client.sinks.create("orders")
            client.publish("orders", [Record(b"of another sink")])
            name, content = next_event(events)

    assert name == "gone"
    assert "orders" in content


def test_the_page_of_spark_writes_has_epochs_and_what_is_staged(server: BrokerServer) -> None:
    with Client(server.endpoint) as client:
        client.sinks.create("orders")
        ticket = client.epochs.take_ticket("orders")
        stage = Stage("query", 7, "run-1", ticket, write_name="hourly", application="app-20261125071122-0003")
        with client.publisher("orders", stage=stage) as publisher:
            publisher.send(b"x")
            publisher.flush()
            staged = publisher.staged()
            [before] = data(server, "/producers.json")["producers"]
        client.epochs.commit([EpochCommit.of("orders", stage, [staged])])

    [after] = data(server, "/producers.json")["producers"]
    now_us = data(server, "/producers.json")["now_us"]

    assert (before["name"], before["last_epoch"], before["staged_records"]) == ("hourly", None, 1)
    assert before["staged_bytes"] > 0
    assert now_us - 60_000_000 < before["staged_at_us"] <= now_us
    assert (after["last_epoch"], after["staged_records"], after["run"]) == (7, 0, "run-1")
    assert (after["staged_at_us"], after["application"]) == (None, "app-20261125071122-0003")
    assert "hourly" in html(server, "/producers")


def test_versions_of_a_schema_are_compared(server: BrokerServer) -> None:
    with Client(server.endpoint) as client:
        client.sinks.create("orders")
        assert "holds records, not rows" in html(server, "/sinks/orders/schemas")
        for previous, names in enumerate((["id"], ["id", "name"])):
            schema = pa.schema([(name, pa.string()) for name in names])
            client.schemas.register("orders", arrow.encode_schema(schema), previous=previous)

    found = data(server, "/sinks/orders/schemas.json")

    assert (found["left"], found["right"]) == (1, 2)
    assert found["fields"][-1] == {"name": "name", "left": "", "right": "string", "change": "added"}
    assert "added" in html(server, "/sinks/orders/schemas")
    assert "9" in html(server, "/sinks/orders/schemas?right=9", 400)


@pytest.mark.parametrize(
    "query",
    [
        *("records?partition=", "explain?offset=0&partition=", "tail?partition="),
        *("schemas?right=", "schemas?left="),
    ],
)
def test_a_partition_or_version_beyond_its_field_is_refused_with_the_range(server: BrokerServer, query: str) -> None:
    with Client(server.endpoint) as client:
        client.sinks.create("orders")

    page = html(server, f"/sinks/orders/{query}{1 << 32}", 400)

    assert "must be a number from 0 to 4294967295, not &#39;4294967296&#39;" in page


def test_damage_lists_gaps_with_their_reason(server: BrokerServer) -> None:
    with Client(server.endpoint) as client:
        client.sinks.create("orders")
        client.publish("orders", [Record(b"x") for _ in range(4)])
        client.sinks.purge("orders")

    found, page = data(server, "/damage.json"), html(server, "/damage")

    assert [(one["sink"], one["first_offset"], one["last_offset"]) for one in found["gaps"]] == [("orders", "0", "3")]
    assert found["quarantined_pages"] == 0
    assert "backup_target" in page
    assert "PURGED" in page


def test_damage_says_when_the_directory_was_verified_last(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = load(data_dir=tmp_path / "data", listen="127.0.0.1:0", console_listen="127.0.0.1:0")
    with BrokerServer.on_disk(settings) as server, Client(server.endpoint) as client:
        client.sinks.create("orders")
        client.publish("orders", [Record(b"x")])
        never = html(server, "/damage"), data(server, "/damage.json")["last_verify"]

    assert run(["verify", "--data-dir", str(settings.data_dir)]) == ExitCode.OK

    with BrokerServer.on_disk(settings) as server:
        page, found = html(server, "/damage"), data(server, "/damage.json")["last_verify"]
    assert "never verified" in never[0]
    assert never[1] is None
    assert "nothing was damaged" in page
    assert found["is_clean"]
    assert abs(found["at_us"] / 1e6 - datetime.now(UTC).timestamp()) < 300
    assert "clean" in capsys.readouterr().out


def test_the_pages_need_the_rights_of_their_calls(tmp_path: Path) -> None:
    viewer, admin = "v" * 43, "a" * 43
    lines = [token_credential("viewer", viewer, ["view=orders"]), token_credential("admin", admin, ["admin=*"])]
    tokens = tmp_path / "tokens"
    tokens.write_text("".join(f"{one.line}\n" for one in lines))
    with BrokerServer.in_memory(console_listen="127.0.0.1:0", token_hashes_file=str(tokens)) as server:
        with Client(server.endpoint, settings=ClientSettings(token=admin)) as client:
            for name in ("orders", "secret"):
                client.sinks.create(name)
                client.publish(name, [Record(b"x")])
                client.sinks.purge(name)
        assert "lacks the right replay" in html(server, "/sinks/orders/tail", 403, token=viewer)
        assert "lacks the right replay" in html(server, "/events/sinks/orders/tail", 403, token=viewer)
        assert html(server, "/sinks/orders/explain?offset=0", token=viewer)
        assert html(server, "/sinks/orders/schemas", token=viewer)
        for path in ("/deliveries", "/producers", "/damage"):
            assert "secret" not in html(server, path, token=viewer), path
        assert "secret" in html(server, "/damage", token=admin)
