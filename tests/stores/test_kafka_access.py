"""Journals in a real Kafka that demands a login, and gives its users rights by topic."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event

import psutil
import pytest

from forebay.broker.storage.replication.engine import Engine, EngineAway, EngineRefused
from forebay.broker.storage.replication.engines.addresses import open_engine
from forebay.broker.storage.replication.engines.kafka.connection.address import parse_address
from forebay.broker.storage.replication.engines.kafka.engine import KafkaEngine
from forebay.broker.storage.replication.probe import probe
from forebay.client import Client, ReplayedRecord
from tests.support.calls.eventually import until
from tests.support.processes.broker import BrokerProcess, serve_command
from tests.support.storage.engine_conformance import EngineConformance
from tests.support.stores.journal_cases import (
    check_a_follower_serves_what_the_owner_gave_receipts_for,
    check_an_empty_disk_gets_everything_from_checkpoint_and_journal,
)
from tests.support.stores.kafka import KafkaCluster
from tests.support.stores.kafka_access import RIGHTS, add_scram_user, cluster_with_users, grant, login_file, withdraw

PLAIN_USER = "plain-user"
SCRAM_USER = "scram-user"
PASSWORD = "secret-of-the-test"
NAMES = {
    "CREATE": "Create",
    "DESCRIBE_CONFIGS": "DescribeConfigs",
    "READ": "Read",
    "WRITE": "Write",
    "DELETE": "Delete",
}
"""Rights without which no broker starts, as errors name them: Read, Write and Delete include Describe."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with cluster_with_users({PLAIN_USER: PASSWORD}, {SCRAM_USER: PASSWORD}) as one:
        yield one


@pytest.fixture
def topic() -> str:
    return f"journal-{secrets.token_hex(4)}"


def address(cluster: KafkaCluster, topic: str, login: Path) -> str:
    return f"kafka://{cluster.login_servers}/{topic}?config={login}"


def plain_login(folder: Path) -> Path:
    return login_file(folder / "login", PLAIN_USER, PASSWORD)


class TestKafkaEngineWithALogin(EngineConformance):
    @pytest.fixture
    def engine(self, cluster: KafkaCluster, topic: str, tmp_path: Path) -> Engine:
        grant(cluster, PLAIN_USER, topic, RIGHTS)
        return open_engine(address(cluster, topic, plain_login(tmp_path)))


def test_a_follower_of_a_user_with_the_documented_rights_serves_what_the_owner_gave_receipts_for(
    cluster: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    grant(cluster, SCRAM_USER, topic, RIGHTS)
    login = login_file(tmp_path / "login", SCRAM_USER, PASSWORD, "SCRAM-SHA-256")

    check_a_follower_serves_what_the_owner_gave_receipts_for(
        {"FOREBAY_JOURNAL": address(cluster, topic, login)}, tmp_path
    )


def test_a_broker_of_a_user_with_the_documented_rights_gets_everything_from_checkpoint_and_journal(
    cluster: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    grant(cluster, PLAIN_USER, topic, RIGHTS)

    check_an_empty_disk_gets_everything_from_checkpoint_and_journal(
        {"FOREBAY_JOURNAL": address(cluster, topic, plain_login(tmp_path))}, tmp_path
    )


def test_a_shard_with_a_name_needs_the_rights_on_all_topics_that_begin_like_the_common_one(
    cluster: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    grant(cluster, PLAIN_USER, topic, RIGHTS, below=True)
    environment = {"FOREBAY_JOURNAL": address(cluster, topic, plain_login(tmp_path)), "FOREBAY_SHARD": "a"}

    with serve_command(tmp_path / "a", environment=environment) as broker, Client(broker.ready(60.0)) as client:
        assert client.info().journal_durability == "at least 2 of 3 replicas, on disk"


@pytest.mark.parametrize(
    ("user", "password", "mechanism", "problem"),
    [
        (PLAIN_USER, "not-the-password", "PLAIN", "Invalid username or password"),
        ("unknown", PASSWORD, "PLAIN", "Invalid username or password"),
        (SCRAM_USER, "not-the-password", "SCRAM-SHA-256", "invalid credentials with SASL mechanism SCRAM-SHA-256"),
        (SCRAM_USER, PASSWORD, "SCRAM-SHA-512", "broker's supported mechanisms: PLAIN,SCRAM-SHA-256"),
    ],
)
def test_a_broker_whose_login_is_refused_says_so_and_starts_once_the_file_is_right(
    cluster: KafkaCluster, topic: str, tmp_path: Path, user: str, password: str, mechanism: str, problem: str
) -> None:
    grant(cluster, PLAIN_USER, topic, RIGHTS)
    login = login_file(tmp_path / "login", user, password, mechanism)

    with serve_command(tmp_path / "a", environment={"FOREBAY_JOURNAL": address(cluster, topic, login)}) as broker:
        said = cause_of("journal refuses access", broker)
        plain_login(tmp_path)
        broker.ready(60.0)
        log = broker.log.read_text()

    assert "Kafka refuses the login: " in said
    assert problem in said
    assert "check security.protocol, sasl.mechanisms, sasl.username and sasl.password in the file" in said
    assert password not in log


def cause_of(event: str, broker: BrokerProcess) -> str:
    """Return the line of a broker's log that has an event."""
    until(lambda: any(event in line for line in broker.log.read_text().splitlines()), timeout_s=30.0)
    return next(line for line in broker.log.read_text().splitlines() if event in line)


def test_a_broker_without_settings_says_that_a_node_with_a_login_wants_them(
    cluster: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    environment = {"FOREBAY_JOURNAL": f"kafka://{cluster.login_servers}/{topic}"}

    with serve_command(tmp_path / "a", environment=environment) as broker:
        said = cause_of("journal does not answer", broker)

    assert "name a file with security.protocol, ?config=FILE after the topic" in said


def test_settings_of_a_login_for_nodes_that_have_none_are_refused(
    cluster: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    with pytest.raises(EngineRefused, match=r"Kafka refuses the login: .*check security.protocol") as refused:
        open_engine(f"kafka://{cluster.servers}/{topic}?config={plain_login(tmp_path)}")

    assert PASSWORD not in str(refused.value)


def test_attempts_that_are_refused_leave_no_thread_behind(cluster: KafkaCluster, topic: str, tmp_path: Path) -> None:
    login = login_file(tmp_path / "login", PLAIN_USER, "not-the-password")
    process = psutil.Process()
    before = process.num_threads()

    for _ in range(2):
        with suppress(EngineRefused):
            open_engine(address(cluster, topic, login))

    until(lambda: process.num_threads() <= before)


def test_a_broker_without_any_right_says_so_and_starts_once_it_has_them(
    cluster: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    environment = {"FOREBAY_JOURNAL": address(cluster, topic, plain_login(tmp_path))}

    with serve_command(tmp_path / "a", environment=environment) as broker:
        said = cause_of("journal refuses access", broker)
        grant(cluster, PLAIN_USER, topic, RIGHTS)
        broker.ready(60.0)

    assert "the user of the journal has no right Describe on the topic; grant it in Kafka" in said


@pytest.mark.parametrize("exists", [False, True], ids=["new", "existing"])
@pytest.mark.parametrize("right", NAMES)
def test_a_missing_right_is_named_when_a_journal_is_opened_and_works_once_it_is_granted(
    cluster: KafkaCluster, topic: str, tmp_path: Path, right: str, exists: bool
) -> None:
    login = plain_login(tmp_path)
    if exists:
        assert open_engine(cluster.url(topic)).create(0, [b"first"])
    grant(cluster, PLAIN_USER, topic, [one for one in RIGHTS if one != right])
    if exists and right == "CREATE":
        probe(open_engine(address(cluster, topic, login)))  # only a topic that is missing has to be created
        return

    with pytest.raises(EngineRefused) as refused:
        probe(open_engine(address(cluster, topic, login)))

    assert f"the user of the journal has no right {NAMES[right]} on the topic; grant it in Kafka" in str(refused.value)
    grant(cluster, PLAIN_USER, topic, [right])
    engine = open_engine(address(cluster, topic, login))
    probe(engine)
    assert engine.read(0) == (b"first" if exists else None)


@pytest.mark.parametrize("right", ["WRITE", "READ", "DELETE"])
def test_an_engine_whose_user_loses_a_right_names_it_and_works_again_once_it_is_back(
    cluster: KafkaCluster, topic: str, tmp_path: Path, right: str
) -> None:
    grant(cluster, PLAIN_USER, topic, RIGHTS)
    engine = KafkaEngine(parse_address(address(cluster, topic, plain_login(tmp_path))), garbage_bytes=1 << 10)
    other = open_engine(cluster.url(topic))
    for position in range(5):
        assert engine.create(position, [b"%d" % position * 10_000])
    engine.delete(range(4))
    withdraw(cluster, PLAIN_USER, topic, right)
    assert other.create(10, [b"of another"])

    with pytest.raises(EngineRefused, match=f"has no right {NAMES[right]} on the topic"):
        until(lambda: not use(engine))  # the node that leads the topic may learn of it a moment later

    assert other.read(4) == b"4" * 10_000
    grant(cluster, PLAIN_USER, topic, [right])
    until(lambda: works(engine), timeout_s=60.0)
    assert other.read(4) == b"4" * 10_000


def use(engine: Engine) -> bool:
    """Read what another one wrote, write, and delete from the topic."""
    assert engine.read(10) == b"of another"
    engine.put_named("test/one", bytes(64 << 10))  # the former one is deleted
    engine.reclaim(Event())
    return True


def works(engine: Engine) -> bool:
    """Return whether an engine does all that a broker needs."""
    try:
        return use(engine)
    except EngineAway:
        return False


def test_an_owner_whose_user_loses_a_right_confirms_nothing_until_it_is_back(
    cluster: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    grant(cluster, PLAIN_USER, topic, RIGHTS)
    environment = {"FOREBAY_JOURNAL": address(cluster, topic, plain_login(tmp_path))}
    values = [b"%d" % number for number in range(200)]
    with serve_command(tmp_path / "a", environment=environment) as owner:
        with Client(owner.ready(60.0)) as client:
            client.sinks.create("orders")
            with client.publisher("orders") as publisher:
                publisher.send_many(values[:100])
                publisher.flush()
                withdraw(cluster, PLAIN_USER, topic, "WRITE")
                for value in values[100:-1]:
                    publisher.send(value)
                said = cause_of("journal refuses access, appends wait", owner)
                last = publisher.send(values[-1])
                until(lambda: client.info().journal_outage == "JOURNAL_AWAY")
                assert "has no right Write on the topic" in client.info().journal_outage_cause
                assert not last.done()
                grant(cluster, PLAIN_USER, topic, ["WRITE"])
                publisher.flush()
                until(lambda: client.info().journal_outage == "")
        owner.kill()
    with serve_command(tmp_path / "b", environment=environment) as other, Client(other.ready(60.0)) as client:
        found = list(client.replay("orders"))

    assert "has no right Write on the topic" in said
    assert [record.value for record in found if isinstance(record, ReplayedRecord)] == values


def test_an_engine_whose_login_is_withdrawn_says_so_and_works_again_once_it_is_back(
    cluster: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    add_scram_user(cluster, "renewed-user", PASSWORD)
    grant(cluster, "renewed-user", topic, RIGHTS)
    login = login_file(tmp_path / "login", "renewed-user", PASSWORD, "SCRAM-SHA-256")
    engine, other = open_engine(address(cluster, topic, login)), open_engine(cluster.url(topic))
    assert engine.create(0, [b"first"])

    add_scram_user(cluster, "renewed-user", "another-password")
    for node in cluster.nodes:  # Kafka checks the login of a connection that is made
        node.kill()
        node.start()
    with pytest.raises(EngineRefused, match="Kafka refuses the login: ") as refused:
        engine.create(1, [b"second"])
    add_scram_user(cluster, "renewed-user", PASSWORD)
    until(lambda: answers(engine), timeout_s=60.0)

    assert PASSWORD not in str(refused.value)
    assert other.read(0) == b"first"
    assert other.read(2) == b"third"


def answers(engine: Engine) -> bool:
    """Return whether an engine takes a record, or has taken it before."""
    try:
        return engine.create(2, [b"third"]) or engine.read(2) == b"third"
    except EngineAway:
        return False
