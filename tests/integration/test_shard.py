"""Two broker processes with a journal: one serves, the other follows, and what has a receipt outlasts the first."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path

import pytest

from forebay.broker.core.access.credentials import token_credential
from forebay.broker.embedded import BrokerServer
from forebay.cli import run
from forebay.cli.exits import ExitCode
from forebay.client import (
    AccessDenied,
    Backup,
    Client,
    ClientSettings,
    Durability,
    FailedPrecondition,
    ForebayError,
    HandOver,
    ReplayedRecord,
)
from forebay.errors.reasons import Reason
from tests.support.calls.eventually import until
from tests.support.calls.streams import PublishCall
from tests.support.processes.broker import Launcher, free_port, serve_command
from tests.support.processes.shard import Shard
from tests.support.refusals import failure
from tests.support.telemetry.figures import metrics_at

MIB = 1 << 20


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Shard]:
    with Launcher() as launcher:
        yield Shard(launcher, tmp_path)


def values_of(endpoint: str, sink: str = "orders") -> list[bytes]:
    with Client(endpoint) as client:
        found = list(client.replay(sink))
    return [record.value for record in found if isinstance(record, ReplayedRecord)]


def publish(endpoint: str, values: list[bytes], sink: str = "orders") -> None:
    with Client(endpoint) as client:
        client.sinks.create(sink, exist_ok=True)
        with client.publisher(sink) as publisher:
            publisher.send_many(values)


def test_a_receipt_and_every_later_answer_say_that_a_record_is_replicated_whatever_fsync_says(shard: Shard) -> None:
    with shard.start("a") as owner:
        owner.ready()
        with Client(owner.endpoint) as client:
            for name, fsync in (("synced", True), ("written", False)):
                client.sinks.create(name, fsync=fsync)
                assert durability(client, name) is Durability.REPLICATED
                assert {part.durability for part in client.sinks.stats(name).partitions} == {Durability.REPLICATED}
                [delivery] = islice(client.subscriber(name), 1)
                assert delivery.durability is Durability.REPLICATED
            client.sinks.update("written", partitions=3)
            assert durability(client, "written", partition=2) is Durability.REPLICATED
            client.sinks.create("held", buffer_mode="SPILL")
            assert durability(client, "held") is Durability.MEMORY


def durability(client: Client, sink: str, *, partition: int = 0) -> Durability:
    """Publish one record; returns what its receipt says."""
    with client.publisher(sink) as publisher:
        return publisher.send(b"1", partition=partition).result(timeout=30.0).durability


LARGE = [bytes([at]) * (1 << 20) for at in range(8)]
"""Enough for a bulk file."""


def test_the_follower_serves_every_record_with_a_receipt_after_the_owner_is_killed(shard: Shard) -> None:
    with shard.start("a") as owner:
        owner.ready()
        with shard.start("b") as follower:
            publish(owner.endpoint, [b"1", b"2", *LARGE])
            with Client(owner.endpoint) as client:
                for delivery in client.subscriber("orders"):
                    delivery.ack_until(0)
                    break
            assert follower.wait_ready(0.0) is None
            owner.kill()

            follower.ready()

            assert values_of(follower.endpoint) == [b"1", b"2", *LARGE]
            publish(follower.endpoint, [b"3"])
            assert values_of(follower.endpoint)[-1] == b"3"


def test_one_address_with_all_brokers_leads_to_the_owner(shard: Shard) -> None:
    with shard.start("a") as owner:
        first = owner.ready()
        with shard.start("b") as follower:
            with Client(f"ipv4:{shard.endpoint('b')},{first}") as client:
                client.sinks.create("orders")
                with client.publisher("orders") as publisher:
                    publisher.send(b"1").result(30.0)
                    owner.kill()
                    publisher.send(b"2").result(60.0)

            assert values_of(follower.ready()) == [b"1", b"2"]


def test_a_follower_takes_over_with_the_tokens_of_that_time(shard: Shard, tmp_path: Path) -> None:
    hashes = tmp_path / "tokens"

    def allow(token: str) -> None:
        hashes.write_text(f"{token_credential('tests', token, ['admin=*']).line}\n")

    def use(endpoint: str, token: str) -> None:
        with Client(endpoint, settings=ClientSettings(token=token)) as client:
            client.info()

    allow("an-old-token")
    with shard.start("a", token_hashes_file=str(hashes)) as owner:
        use(owner.ready(), "an-old-token")
        with shard.start("b", token_hashes_file=str(hashes)) as follower:
            until((tmp_path / "b" / "owner.json").exists, timeout_s=30.0)
            allow("a-new-token")
            owner.kill()

            endpoint = follower.ready()

            use(endpoint, "a-new-token")
            with pytest.raises(AccessDenied):
                use(endpoint, "an-old-token")


def test_role_and_progress_of_owner_and_follower_are_metrics_and_the_owner_describes_its_journal(
    shard: Shard,
) -> None:
    addresses = {name: f"127.0.0.1:{free_port()}" for name in "ab"}

    def metrics_of(name: str) -> dict[str, float]:
        return metrics_at(addresses[name])

    def has_read(position: float) -> bool:
        found = metrics_of("b")
        return found["forebay_journal_position"] == position and found["forebay_follower_lag_seconds"] < 5

    with shard.start("a", metrics_listen=addresses["a"]) as owner:
        owner.ready()
        with shard.start("b", metrics_listen=addresses["b"]) as follower:
            publish(owner.endpoint, [b"1"])
            until(lambda: is_served(addresses["b"]))
            until(lambda: has_read(metrics_of("a")["forebay_journal_position"]))
            assert metrics_of("a")["forebay_shard_owner"] == 1
            assert metrics_of("a")["forebay_journal_resends_total"] == 0
            epoch = metrics_of("a")["forebay_journal_epoch"]
            assert metrics_of("b")["forebay_shard_owner"] == 0
            with Client(owner.endpoint) as client:
                before = client.info()
            owner.kill()
            follower.ready()

            assert metrics_of("b")["forebay_shard_owner"] == 1
            assert "forebay_follower_lag_seconds" not in metrics_of("b")
            assert metrics_of("b")["forebay_journal_epoch"] == epoch + 1
            with Client(follower.endpoint) as client:
                after = client.info()

    assert before.journal == after.journal == f"file://{shard.journal}"
    assert after.owner_epoch > before.owner_epoch > 0
    assert after.journal_position > before.journal_position > 0


def is_served(address: str) -> bool:
    """Return whether something listens at HOST:PORT."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except ConnectionRefusedError:
        return False
    return True


def test_a_broker_that_stops_in_order_hands_over_without_the_silence(shard: Shard) -> None:
    with shard.start("a") as owner:
        owner.ready()
        publish(owner.endpoint, [b"1"])
        with shard.start("b") as follower:
            assert owner.terminate() == 0
            follower.ready()
            assert values_of(follower.endpoint) == [b"1"]
            assert follower.terminate() == 0
        with shard.start("a") as again:
            again.ready()
            assert values_of(again.endpoint) == [b"1"]


def epoch_of(endpoint: str) -> int:
    """Owner epoch of the broker at an endpoint, once it serves."""
    with Client(endpoint) as client:
        return client.info(timeout_s=30.0).owner_epoch


def hand_over(owner: str, to: str) -> HandOver:
    with Client(owner) as client:
        return client.shards.hand_over(to)


def test_an_owner_hands_over_to_the_broker_that_is_named_and_takes_the_shard_back_the_same_way(shard: Shard) -> None:
    patient = {"takeover_after_s": 60.0}
    with shard.start("a", **patient) as a:
        a.ready()
        with shard.start("b", **patient) as b, shard.start("c", **patient) as c, Client(shard.address) as client:
            client.sinks.create("orders")
            with client.publisher("orders") as publisher:
                receipts = [publisher.send(b"1")]
                receipts[0].result(timeout=30.0)

                first = hand_over(a.endpoint, shard.endpoint("c"))
                receipts.append(publisher.send(b"2"))
                assert epoch_of(c.ready()) == first.owner_epoch + 1
                assert hand_over(c.endpoint, c.endpoint).already_owner
                receipts.append(publisher.send(b"3"))
                receipts[-1].result(timeout=30.0)

                hand_over(c.endpoint, a.endpoint)
                receipts.append(publisher.send(b"4"))
                assert epoch_of(a.endpoint) == first.owner_epoch + 2

            assert [one.result(timeout=30.0).first_offset for one in receipts] == [0, 1, 2, 3]
            assert b.wait_ready(0.0) is None
            assert values_of(a.endpoint) == [b"1", b"2", b"3", b"4"]
            assert a.terminate() == c.terminate() == 0


def test_an_owner_that_hands_over_without_a_name_leaves_the_shard_to_another_broker(shard: Shard) -> None:
    with shard.start("a", takeover_after_s=60.0) as owner:
        owner.ready()
        publish(owner.endpoint, [b"1"])
        with shard.start("b", takeover_after_s=60.0) as follower, Client(owner.endpoint) as client:
            client.shards.hand_over()

            assert values_of(follower.ready()) == [b"1"]


def test_an_owner_serves_again_where_the_broker_that_it_names_does_not_run(shard: Shard) -> None:
    with shard.start("a") as owner:
        owner.ready()
        publish(owner.endpoint, [b"1"])
        with Client(owner.endpoint) as client:
            before = client.shards.hand_over("nowhere:1")

        until(lambda: owner.log.read_text().count("took over a journal") == 2, timeout_s=60.0)
        assert epoch_of(owner.endpoint) == before.owner_epoch + 1
        assert values_of(owner.endpoint) == [b"1"]


def test_a_broker_without_a_journal_hands_nothing_over() -> None:
    with BrokerServer.in_memory() as broker, Client(broker.endpoint) as client:
        with pytest.raises(FailedPrecondition) as refused:
            client.shards.hand_over()

        assert refused.value.reason == Reason.NO_JOURNAL.name


def test_an_owner_that_was_frozen_confirms_nothing_and_ends_when_it_wakes_up(shard: Shard) -> None:
    with shard.start("a") as owner:
        owner.ready()
        publish(owner.endpoint, [b"1"])
        with shard.start("b") as follower, Client(owner.endpoint) as client:
            publisher = client.publisher("orders", delivery_timeout_s=3.0)
            os.kill(owner.pid, signal.SIGSTOP)
            late = publisher.send(b"late")
            publish(follower.ready(), [b"2"])

            os.kill(owner.pid, signal.SIGCONT)
            assert owner.wait() == 1
            with pytest.raises(ForebayError):
                publisher.close()
            assert late.exception() is not None

            assert values_of(follower.endpoint) == [b"1", b"2"]


def test_a_broker_with_an_empty_directory_gets_everything_from_the_journal(shard: Shard, tmp_path: Path) -> None:
    with shard.start("a") as owner:
        owner.ready()
        publish(owner.endpoint, [b"1", *LARGE])
        owner.kill()
    (tmp_path / "a").rename(tmp_path / "burnt")

    with shard.start("b") as other:
        other.ready()
        assert values_of(other.endpoint) == [b"1", *LARGE]


def bytes_in(directory: Path) -> int:
    found = 0
    for path in directory.rglob("*"):
        with suppress(FileNotFoundError):  # renamed or deleted meanwhile
            found += path.stat().st_blocks * 512 if path.is_file() else 0
    return found


def drop_all(endpoint: str, sink: str = "orders") -> None:
    with Client(endpoint) as client:
        client.sinks.purge(sink)


@pytest.mark.parametrize("followers", [0, 1])
def test_a_journal_is_trimmed_and_every_disk_of_the_shard_may_be_lost(
    shard: Shard, tmp_path: Path, followers: int
) -> None:
    garbage = 8 << 20
    with shard.start("a", journal_garbage_bytes=garbage) as owner:
        owner.ready()
        with ExitStack() as others:
            follower = others.enter_context(shard.start("b", journal_garbage_bytes=garbage)) if followers else None
            publish(owner.endpoint, [b"kept", *LARGE[:2]], "kept")
            for _ in range(3):
                publish(owner.endpoint, LARGE)
                drop_all(owner.endpoint)
            until(lambda: bytes_in(shard.journal) < 2 * (2 << 20) + garbage, timeout_s=60.0)
            publish(owner.endpoint, [b"last"])
            owner.kill()
            if follower is not None:
                follower.kill()
    for name in "ab":
        if (tmp_path / name).exists():
            (tmp_path / name).rename(tmp_path / f"lost-{name}")

    with shard.start("b") as other:
        other.ready(60.0)
        assert values_of(other.endpoint, "kept") == [b"kept", *LARGE[:2]]
        assert values_of(other.endpoint)[-1] == b"last"
        assert "loaded a checkpoint" in other.log.read_text()
        publish(other.endpoint, [b"next"], "kept")
        assert values_of(other.endpoint, "kept")[-1] == b"next"


def test_a_broker_whose_directory_is_far_behind_begins_again_with_the_checkpoint(shard: Shard) -> None:
    garbage = 8 << 20
    with shard.start("a", journal_garbage_bytes=garbage) as owner:
        publish(owner.ready(), [b"1"])
        assert owner.terminate() == 0
    with shard.start("b", journal_garbage_bytes=garbage) as owner:
        owner.ready()
        publish(owner.endpoint, LARGE)
        drop_all(owner.endpoint)
        until(lambda: not (shard.journal / f"{3:020d}").exists(), timeout_s=60.0)
        publish(owner.endpoint, [b"2"])
        with shard.start("a") as behind:
            until(lambda: "loaded a checkpoint" in behind.log.read_text(), timeout_s=60.0)
            owner.kill()
            assert values_of(behind.ready())[-1] == b"2"


def test_a_record_published_while_the_journal_is_unreachable_gets_its_receipt_when_the_journal_returns(
    shard: Shard, tmp_path: Path
) -> None:
    with shard.start("a") as owner:
        owner.ready()
        publish(owner.endpoint, [b"1"])
        with Client(owner.endpoint) as client, client.publisher("orders") as publisher:
            shard.journal.rename(tmp_path / "away")
            late = publisher.send(b"2")
            with pytest.raises(TimeoutError):
                late.result(timeout=1.0)

            (tmp_path / "away").rename(shard.journal)

            assert late.result(timeout=30.0).first_offset == 1
        assert values_of(owner.endpoint) == [b"1", b"2"]


def test_while_the_journal_is_unreachable_it_is_the_reason_of_rejected_appends_and_nothing_is_lost(
    shard: Shard, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = f"127.0.0.1:{free_port()}"
    with shard.start("a", waiting_bytes_max=MIB, metrics_listen=address) as owner, Client(owner.ready()) as client:
        client.sinks.create("orders")
        with PublishCall(owner.endpoint, "orders", "w") as first, PublishCall(owner.endpoint, "orders", "v") as second:
            shard.journal.rename(tmp_path / "away")
            first.send(0, [b"x" * (MIB - 1_000)])
            until(lambda: client.info().journal_outage == "JOURNAL_AWAY")

            with failure(Reason.JOURNAL_AWAY) as refused:
                second.publish(0, [b"y" * 1_000])
            assert run(["status", "-e", owner.endpoint]) == ExitCode.FAILED
            assert metrics_at(address)["forebay_journal_away_seconds"] > 0
            (tmp_path / "away").rename(shard.journal)

            assert first.answer().first_offset == 0
            assert second.publish(0, [b"y"]).first_offset == 1
        after = client.info()
    assert refused.value.retry_after_s == 1.0
    assert "the journal does not answer (JOURNAL_AWAY)" in capsys.readouterr().out
    assert (after.journal_outage, after.journal_outage_cause) == ("", "")


def test_a_broker_whose_journal_is_unreachable_ends_when_it_is_asked_to(shard: Shard, tmp_path: Path) -> None:
    with shard.start("a", drain_s=1.0) as owner:
        owner.ready()
        publish(owner.endpoint, [b"1"])
        shard.journal.rename(tmp_path / "away")

        assert owner.terminate() == 1

    (tmp_path / "away").rename(shard.journal)
    with shard.start("a") as again:
        assert values_of(again.ready()) == [b"1"]


def test_a_follower_stops_when_it_is_asked_to(shard: Shard) -> None:
    with shard.start("a") as owner:
        owner.ready()
        with shard.start("b") as follower:
            assert follower.wait_ready(0.5) is None
            assert follower.terminate() == 0


def test_a_broker_whose_directory_has_a_store_without_a_journal_is_refused(tmp_path: Path) -> None:
    with serve_command(tmp_path / "a") as alone:
        alone.ready()
        assert alone.terminate() == 0

    with serve_command(tmp_path / "a", environment={"FOREBAY_JOURNAL": str(tmp_path / "journal")}) as broker:
        assert broker.wait() != 0

    assert "the directory has a store without a journal; use an empty directory" in broker.log.read_text()


def test_a_directory_of_a_shard_is_served_without_the_journal_only_after_a_repair_or_a_restore(
    shard: Shard, tmp_path: Path
) -> None:
    backups, repaired, restored = (tmp_path / name for name in ("backups", "repaired", "restored"))
    with shard.start("a", backup_target=str(backups)) as owner:
        owner.ready()
        publish(owner.endpoint, [b"1"])
        with Client(owner.endpoint) as client:
            made = list(client.backups.create())[-1]
        assert isinstance(made, Backup)
        assert owner.terminate() == 0

    with serve_command(tmp_path / "a") as alone:
        assert alone.wait() != 0
    assert "follows the journal of a shard" in alone.log.read_text()

    assert run(["repair", "--data-dir", str(tmp_path / "a"), "--into", str(repaired)]) == ExitCode.OK
    assert run(["backup", "restore", "--target", str(backups), "--into", str(restored)]) == ExitCode.OK
    for directory in (repaired, restored):
        with serve_command(directory) as alone:
            with Client(alone.ready()) as client:  # a restored sink ends with a gap
                found = list(client.replay("orders", on_gap="yield"))
            assert [one.value for one in found if isinstance(one, ReplayedRecord)] == [b"1"]
            assert alone.terminate() == 0
