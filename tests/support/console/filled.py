"""A broker with something to see on each page of the console."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from forebay.broker.embedded import BrokerServer
from forebay.broker.settings import BrokerSettings, load
from forebay.client import Client, Record, Stage, arrow

EVIL = "<img src=http://evil.example/x onerror=alert(1)>\x1b[31m\u202e"
"""Text of others, which no page may run or load."""


def settings(folder: Path) -> BrokerSettings:
    """Return the settings of a broker with all that the console has."""
    return load(
        data_dir=folder / "data",
        listen="127.0.0.1:0",
        console_listen="127.0.0.1:0",
        console_write=True,
        console_trace_url="https://traces.example/{trace_id}",
        console_spark_url="https://spark.example/history/{application}",
        backup_target=str(folder / "backups"),
    )


def fill(server: BrokerServer) -> None:
    """Make a sink in each state, with records, rows, gaps, dead letters, epochs and a backup."""
    with Client(server.endpoint) as client:
        for name, partitions in (("orders", 4), ("alerts", 1), ("failing", 1), ("a-name." * 14 + "x", 1)):
            client.sinks.create(name, partitions=partitions)
        client.sinks.create("full", max_disk_cache=5)
        for partition in range(4):
            records = [Record(b'{"id": %d, "text": "a value of some length"}' % n, key=b"k%d" % n) for n in range(60)]
            client.publish("orders", [*records, Record(EVIL.encode())], partition=partition)
        client.publish("alerts", [Record(b"\xff\xfe%d" % n, headers=[("unit", EVIL.encode())]) for n in range(6)])
        client.publish("full", [Record(b"x") for _ in range(5)])
        client.publish("failing", [Record(b"x") for _ in range(9)])
        with client.subscriber("alerts") as alerts, client.subscriber("failing") as failing:
            delivery = next(iter(alerts))
            for offset, error in enumerate((EVIL, "HTTP 422 Unprocessable Content", EVIL)):
                delivery.dead_letter(error, offset=offset, wait=True)
            next(iter(failing)).nack(delay_s=3_000.0, reason=f"HTTP 503 {EVIL}", wait=True)
        client.sinks.pause("orders", EVIL)
        client.sinks.create("rows")
        for previous, names in enumerate((["id"], ["id", "name"])):
            schema = pa.schema([(name, pa.string()) for name in names])
            client.schemas.register("rows", arrow.encode_schema(schema), previous=previous)
        schema = pa.schema([("id", pa.string()), ("name", pa.string())])
        rows = pa.RecordBatch.from_pylist([{"id": str(n), "name": EVIL if n % 2 else None} for n in range(9)], schema)
        with client.publisher("rows") as publisher:
            for _ in range(2):
                publisher.send_page(arrow.page(rows, 2), partition=0).result(30)
        with client.subscriber("rows", consumer_id="loader") as loader:
            next(iter(loader)).ack(0, 8, wait=True)
        ticket = client.epochs.take_ticket("orders")
        stage = Stage("query", 7, "run-1", ticket, write_name="hourly", application="application_1410901177871_0001")
        publisher = client.publisher("orders", stage=stage)
        with publisher:
            publisher.send(b"x")
            publisher.flush()
        client.sinks.create("purged")
        client.publish("purged", [Record(b"x")])
        client.sinks.purge("purged")
        list(client.backups.create())
