"""Journals in a real Kafka with TLS, which demands a login or a certificate, and has its clients log in again."""

from __future__ import annotations

import logging
import secrets
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil
import pytest

from forebay.broker.storage.replication.engine import (
    Engine,
    EngineAway,
    EngineRefused,
    EngineUnsuitable,
    EngineUntrusted,
)
from forebay.broker.storage.replication.engines.addresses import open_engine
from forebay.client import Client, ReplayedRecord
from tests.support.calls.eventually import until
from tests.support.certificates import Authority
from tests.support.processes.broker import BrokerProcess, serve_command
from tests.support.storage.engine_conformance import EngineConformance
from tests.support.storage.journals import batch_of, read_all, take_over
from tests.support.stores.journal_cases import (
    check_a_follower_serves_what_the_owner_gave_receipts_for,
    check_an_empty_disk_gets_everything_from_checkpoint_and_journal,
)
from tests.support.stores.kafka import KafkaCluster
from tests.support.stores.kafka_access import RIGHTS, add_scram_user, cluster_with_users, grant, login_file
from tests.support.stores.kafka_tls import (
    EXPIRED,
    LOGIN,
    MUTUAL,
    OTHER,
    REAUTHENTICATION_MS,
    TLS,
    secure_listeners,
    secure_login,
    settings_file,
)

PLAIN_USER = "plain-user"
SCRAM_USER = "scram-user"
CERTIFICATE_USER = "CN=client"
PASSWORD = "secret-of-the-test"
SOON_S: Final = 8.0
"""Time within which an error says what to change."""
CYCLES: Final = 4
"""Times that a client has to log in again over the connections that it has."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("stranger"), "stranger")


@pytest.fixture(scope="module")
def cluster(authority: Authority) -> Iterator[KafkaCluster]:
    users = {PLAIN_USER: PASSWORD}
    with cluster_with_users(users, {SCRAM_USER: PASSWORD}, secure_listeners(authority, users)) as one:
        yield one


@pytest.fixture
def topic(cluster: KafkaCluster) -> str:
    name = f"journal-{secrets.token_hex(4)}"
    for user in (PLAIN_USER, SCRAM_USER, CERTIFICATE_USER):
        grant(cluster, user, name, RIGHTS)
    return name


def address(servers: str, topic: str, settings: Path) -> str:
    return f"kafka://{servers}/{topic}?config={settings}"


def refusal_of(url: str) -> EngineAway:
    """Return the error of a journal that cannot be opened, which comes soon."""
    began = time.monotonic()
    with pytest.raises(EngineAway) as refused:
        open_engine(url)
    assert time.monotonic() - began < SOON_S
    assert PASSWORD not in str(refused.value)
    return refused.value


class TestKafkaEngineWithTlsAndALogin(EngineConformance):
    @pytest.fixture(params=["PLAIN", "SCRAM-SHA-256"])
    def engine(
        self, request: pytest.FixtureRequest, cluster: KafkaCluster, topic: str, authority: Authority, tmp_path: Path
    ) -> Engine:
        user = PLAIN_USER if request.param == "PLAIN" else SCRAM_USER
        login = secure_login(tmp_path / "login", authority, user, PASSWORD, request.param)
        return open_engine(address(cluster.secure_servers(LOGIN), topic, login))


@pytest.mark.parametrize("listener", [TLS, MUTUAL])
def test_a_journal_is_used_over_tls_without_a_password(
    cluster: KafkaCluster, topic: str, authority: Authority, tmp_path: Path, listener: str
) -> None:
    own = authority.signed("client")
    settings = settings_file(
        tmp_path / "settings",
        security_protocol="SSL",
        ssl_ca_location=authority.cert,
        ssl_certificate_location=own.cert,
        ssl_key_location=own.key,
    )
    engine = open_engine(address(cluster.secure_servers(listener), topic, settings))

    assert engine.create(0, [b"first"])

    assert engine.read(0) == b"first"


def test_a_follower_serves_what_the_owner_gave_receipts_for(
    cluster: KafkaCluster, topic: str, authority: Authority, tmp_path: Path
) -> None:
    login = secure_login(tmp_path / "login", authority, SCRAM_USER, PASSWORD, "SCRAM-SHA-256")

    check_a_follower_serves_what_the_owner_gave_receipts_for(
        {"FOREBAY_JOURNAL": address(cluster.secure_servers(LOGIN), topic, login)}, tmp_path
    )


def test_a_broker_on_an_empty_disk_gets_everything_from_checkpoint_and_journal(
    cluster: KafkaCluster, topic: str, authority: Authority, tmp_path: Path
) -> None:
    login = secure_login(tmp_path / "login", authority, PLAIN_USER, PASSWORD)

    check_an_empty_disk_gets_everything_from_checkpoint_and_journal(
        {"FOREBAY_JOURNAL": address(cluster.secure_servers(LOGIN), topic, login)}, tmp_path
    )


@pytest.mark.parametrize(
    ("listener", "trusts", "problem"),
    [
        (TLS, "stranger", "unable to get local issuer certificate; name the file of the authority that signed it with"),
        (TLS, "system", "unable to get local issuer certificate; name the file of the authority that signed it with"),
        (OTHER, "authority", "not valid for '127.0.0.1'.; name each node as its certificate does, in the journal's"),
        (EXPIRED, "authority", "certificate has expired; renew it, or set the clock of this machine"),
    ],
)
def test_a_certificate_that_is_not_accepted_is_an_error_that_says_why(
    cluster: KafkaCluster,
    topic: str,
    authority: Authority,
    stranger: Authority,
    tmp_path: Path,
    listener: str,
    trusts: str,
    problem: str,
) -> None:
    trusted = {"stranger": stranger.cert, "authority": authority.cert, "system": Path("probe")}[trusts]
    settings = settings_file(tmp_path / "settings", security_protocol="SSL", ssl_ca_location=trusted)

    error = refusal_of(address(cluster.secure_servers(listener), topic, settings))

    assert isinstance(error, EngineUntrusted)
    assert problem in str(error)


def test_a_client_that_verifies_no_names_uses_nodes_with_the_certificate_of_another_host(
    cluster: KafkaCluster, topic: str, authority: Authority, tmp_path: Path
) -> None:
    settings = settings_file(
        tmp_path / "settings",
        security_protocol="SSL",
        ssl_ca_location=authority.cert,
        ssl_endpoint_identification_algorithm="none",
    )

    assert open_engine(address(cluster.secure_servers(OTHER), topic, settings)).create(0, [b"first"])


@pytest.mark.parametrize("protocol", ["", "PLAINTEXT", "SASL_PLAINTEXT"])
@pytest.mark.parametrize("listener", [TLS, LOGIN])
def test_an_error_of_a_client_without_tls_says_that_the_nodes_demand_it(
    cluster: KafkaCluster, topic: str, tmp_path: Path, protocol: str, listener: str
) -> None:
    login = login_file(tmp_path / "login", PLAIN_USER, PASSWORD, "PLAIN")
    text = login.read_text().replace("SASL_PLAINTEXT", protocol)
    login.write_text(text if protocol else "")

    error = refusal_of(address(cluster.secure_servers(listener), topic, login))

    assert isinstance(error, EngineRefused)
    assert f"demands TLS, and security.protocol is {protocol or 'PLAINTEXT'}: set SSL, or SASL_SSL with a" in str(error)


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
@pytest.mark.parametrize("has_login", [False, True], ids=["plain", "login"])
def test_an_error_of_a_client_with_tls_says_that_the_nodes_have_none(
    cluster: KafkaCluster, topic: str, authority: Authority, tmp_path: Path, protocol: str, has_login: bool
) -> None:
    login = secure_login(tmp_path / "login", authority, PLAIN_USER, PASSWORD)
    login.write_text(login.read_text().replace("SASL_SSL", protocol))
    servers = cluster.login_servers if has_login else cluster.servers

    error = refusal_of(address(servers, topic, login))

    assert isinstance(error, EngineRefused)
    assert f"has no TLS, and security.protocol is {protocol}: set PLAINTEXT, or SASL_PLAINTEXT with a" in str(error)


def test_an_error_of_a_client_with_tls_and_no_login_says_that_the_protocol_may_be_another_one(
    cluster: KafkaCluster, topic: str, authority: Authority, tmp_path: Path
) -> None:
    settings = settings_file(tmp_path / "settings", security_protocol="SSL", ssl_ca_location=authority.cert)

    error = refusal_of(address(cluster.secure_servers(LOGIN), topic, settings))

    assert "a node that wants another protocol than security.protocol = SSL ends such a connection" in str(error)


def test_a_login_that_nodes_with_tls_do_not_have_is_refused(
    cluster: KafkaCluster, topic: str, authority: Authority, tmp_path: Path
) -> None:
    login = secure_login(tmp_path / "login", authority, PLAIN_USER, PASSWORD)

    error = refusal_of(address(cluster.secure_servers(TLS), topic, login))

    assert isinstance(error, EngineRefused)
    assert "Kafka refuses the login: " in str(error)


@pytest.mark.parametrize("has_one", [False, True], ids=["none", "of-a-stranger"])
def test_an_error_of_a_client_without_a_certificate_says_that_the_nodes_demand_one(
    cluster: KafkaCluster, topic: str, authority: Authority, stranger: Authority, tmp_path: Path, has_one: bool
) -> None:
    other = stranger.signed("client")
    own = {"ssl_certificate_location": other.cert, "ssl_key_location": other.key} if has_one else {}
    settings = settings_file(tmp_path / "settings", security_protocol="SSL", ssl_ca_location=authority.cert, **own)

    error = refusal_of(address(cluster.secure_servers(MUTUAL), topic, settings))

    assert isinstance(error, EngineRefused)
    assert "Kafka demands a certificate that it trusts: " in str(error)
    assert "with ssl.certificate.location and ssl.key.location in the file" in str(error)


def test_a_file_of_the_settings_that_is_missing_is_named(cluster: KafkaCluster, topic: str, tmp_path: Path) -> None:
    missing = tmp_path / "missing.pem"
    settings = settings_file(tmp_path / "settings", security_protocol="SSL", ssl_ca_location=missing)

    with pytest.raises(EngineUnsuitable, match=r"the file of ssl\.ca\.location cannot be read: .*missing\.pem"):
        open_engine(address(cluster.secure_servers(TLS), topic, settings))


def test_a_broker_that_does_not_trust_the_nodes_says_so_and_starts_once_the_file_is_right(
    cluster: KafkaCluster, topic: str, authority: Authority, stranger: Authority, tmp_path: Path
) -> None:
    login = secure_login(tmp_path / "login", stranger, PLAIN_USER, PASSWORD)
    environment = {"FOREBAY_JOURNAL": address(cluster.secure_servers(LOGIN), topic, login)}

    with serve_command(tmp_path / "a", environment=environment) as broker:
        said = cause_of("journal is not trusted", broker)
        secure_login(login, authority, PLAIN_USER, PASSWORD)
        broker.ready(60.0)

    assert "unable to get local issuer certificate; name the file of the authority" in said


def cause_of(event: str, broker: BrokerProcess) -> str:
    """Return the line of a broker's log that has an event."""
    until(lambda: any(event in line for line in broker.log.read_text().splitlines()), timeout_s=30.0)
    return next(line for line in broker.log.read_text().splitlines() if event in line)


@pytest.mark.parametrize(("user", "mechanism"), [(PLAIN_USER, "PLAIN"), (SCRAM_USER, "SCRAM-SHA-256")])
def test_clients_log_in_again_over_the_same_connections_while_appends_are_open(
    cluster: KafkaCluster,
    topic: str,
    authority: Authority,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    user: str,
    mechanism: str,
) -> None:
    login = secure_login(tmp_path / "login", authority, user, PASSWORD, mechanism)
    url = address(cluster.secure_servers(LOGIN), topic, login)
    engine, other = open_engine(url), open_engine(url)
    owner, found, count = take_over(engine, b"a"), list[int](), 0
    leader = cluster.leader(topic).secure_ports[LOGIN]
    owner.append(batch_of(0))
    before = connections(leader)

    ends_at = time.monotonic() + CYCLES * REAUTHENTICATION_MS / 1_000
    groups = deque([owner.begin(batch_of(count := count + 1)) for _ in range(4)])
    with caplog.at_level(logging.WARNING):
        while time.monotonic() < ends_at:
            owner.finish(groups.popleft())
            groups.append(owner.begin(batch_of(count := count + 1)))
            if count % 50 == 0:
                found.append(len(read_all(other)))
        while groups:
            owner.finish(groups.popleft())

    assert read_all(other) == list(range(count + 1))
    assert found == sorted(found)
    assert not caplog.records, "an append had to wait"
    assert before & connections(leader), "no connection is older than a login is valid"
    owner.close()


def connections(port: int) -> set[int]:
    """Return the local ports of the connections of this process to a port."""
    found = psutil.Process().net_connections()
    return {one.laddr[1] for one in found if one.status == psutil.CONN_ESTABLISHED and one.raddr[1] == port}


def test_a_user_who_is_replaced_while_appends_are_open_loses_nothing(
    cluster: KafkaCluster, topic: str, authority: Authority, tmp_path: Path
) -> None:
    add_scram_user(cluster, "expiring-user", PASSWORD)
    grant(cluster, "expiring-user", topic, RIGHTS)
    login = secure_login(tmp_path / "login", authority, "expiring-user", PASSWORD, "SCRAM-SHA-256")
    environment = {"FOREBAY_JOURNAL": address(cluster.secure_servers(LOGIN), topic, login)}
    values = list[bytes]()
    with serve_command(tmp_path / "a", environment=environment) as owner:
        with Client(owner.ready(60.0)) as client:
            client.sinks.create("orders")
            with client.publisher("orders") as publisher:
                add_scram_user(cluster, "expiring-user", "another-password")

                def send() -> bool:
                    values.append(b"%d" % len(values))
                    publisher.send(values[-1])
                    return client.info().journal_outage == "JOURNAL_AWAY"

                until(send, timeout_s=60.0)
                said = cause_of("journal refuses access, appends wait", owner)
                cause = client.info().journal_outage_cause
                add_scram_user(cluster, "expiring-user", PASSWORD)
                publisher.flush()
                until(lambda: client.info().journal_outage == "")
        assert not owner.has_ended()
        owner.kill()
    with serve_command(tmp_path / "b", environment=environment) as other, Client(other.ready(60.0)) as client:
        found = list(client.replay("orders"))

    assert "Kafka refuses the login: " in said
    assert "check security.protocol, sasl.mechanisms, sasl.username and sasl.password" in cause
    assert [record.value for record in found if isinstance(record, ReplayedRecord)] == values
