"""Cases of shards whose journal is in a real server; the environment of the brokers has its address and credentials."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from forebay.broker.storage.replication.engines.addresses import open_engine
from forebay.client import BrokerInfo, Client, ReplayedRecord
from tests.support.calls.eventually import until
from tests.support.processes.broker import serve_command

TAKEOVER = {"FOREBAY_TAKEOVER_AFTER_S": "2"}


def check_a_follower_serves_what_the_owner_gave_receipts_for(
    environment: Mapping[str, str], folder: Path
) -> BrokerInfo:
    """Kill the owner after its receipts; returns what the follower says of itself."""
    environment = {**environment, **TAKEOVER}
    values = [b"%d" % number * 1_000 for number in range(500)]
    with serve_command(folder / "a", environment=environment) as owner:
        with Client(owner.ready(60.0)) as client:
            client.sinks.create("orders")
            with client.publisher("orders") as publisher:
                publisher.send_many(values)
        with serve_command(folder / "b", environment=environment) as follower:
            owner.kill()
            with Client(follower.ready(60.0)) as client:
                found = list(client.replay("orders"))
                info = client.info()
    assert [record.value for record in found if isinstance(record, ReplayedRecord)] == values
    return info


def check_an_empty_disk_gets_everything_from_checkpoint_and_journal(
    environment: Mapping[str, str], folder: Path
) -> None:
    """Lose the directory of the owner, once its journal has been trimmed."""
    environment = {**environment, **TAKEOVER, "FOREBAY_JOURNAL_GARBAGE_BYTES": str(1 << 20)}
    values = [b"%d" % number * 50_000 for number in range(100)]
    with serve_command(folder / "a", environment=environment) as owner:
        with Client(owner.ready(60.0)) as client:
            client.sinks.create("orders")
            with client.publisher("orders") as publisher:
                publisher.send_many(values)
            engine = open_engine(environment["FOREBAY_JOURNAL"], creates=False)
            until(lambda: engine.read(1) is None, timeout_s=60.0)
            with client.publisher("orders") as publisher:
                publisher.send(b"last")
        owner.kill()
    with serve_command(folder / "b", environment=environment) as other:
        with Client(other.ready(60.0)) as client:
            found = list(client.replay("orders"))
        assert "loaded a checkpoint" in other.log.read_text()
    assert [record.value for record in found if isinstance(record, ReplayedRecord)] == [*values, b"last"]
