"""Access to a Kafka that demands a login: rights by topic, and the files of settings that a journal's address names."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.support.calls.eventually import until
from tests.support.processes.server import START_S
from tests.support.stores.kafka import NODES, KafkaCluster, SecureListener

RIGHTS: Final = ("CREATE", "DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE", "DELETE")
"""Rights on the topic of a journal that the documentation names."""


def grant(cluster: KafkaCluster, user: str, topic: str, rights: Iterable[str], *, below: bool = False) -> None:
    """Give a user rights on a topic, or on all whose names begin like it if ``below`` is True."""
    pattern = ResourcePatternType.PREFIXED if below else ResourcePatternType.LITERAL
    bindings = [
        AclBinding(
            ResourceType.TOPIC, topic, pattern, f"User:{user}", "*", AclOperation[right], AclPermissionType.ALLOW
        )
        for right in rights
    ]
    admin = cluster.admin()
    for done in admin.create_acls(bindings).values():
        done.result(START_S)
    _await_known(cluster, lambda found: all(binding in found for binding in bindings))


def withdraw(cluster: KafkaCluster, user: str, topic: str, right: str) -> None:
    """Take a right on a topic away from a user."""
    chosen = AclBindingFilter(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        AclOperation[right],
        AclPermissionType.ALLOW,
    )
    admin = cluster.admin()
    (done,) = admin.delete_acls([chosen]).values()
    (gone,) = done.result(START_S)
    _await_known(cluster, lambda found: gone not in found)


def _await_known(cluster: KafkaCluster, is_known: Callable[[Sequence[AclBinding]], bool]) -> None:
    """Return when each node knows a change; a client that is new asks the node that it is connected to."""
    anything: Any = None
    everything = AclBindingFilter(
        ResourceType.ANY, anything, ResourcePatternType.ANY, anything, anything, AclOperation.ANY, AclPermissionType.ANY
    )
    for node in cluster.nodes:
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{node.port}", "log_level": 0})
        until(partial(_answers, admin, everything, is_known))


def _answers(admin: AdminClient, chosen: AclBindingFilter, is_known: Callable[[Sequence[AclBinding]], bool]) -> bool:
    return is_known(admin.describe_acls(chosen).result(START_S))


@contextmanager
def cluster_with_users(
    plain: Mapping[str, str], scram: Mapping[str, str], secure: Mapping[str, SecureListener] | None = None
) -> Iterator[KafkaCluster]:
    """Run a cluster whose users log in with PLAIN or SCRAM-SHA-256, by their passwords."""
    folder = Path(tempfile.mkdtemp(prefix="forebay-store-"))
    cluster = KafkaCluster(folder, users=plain, secure=secure)
    try:
        cluster.start()
        for user, password in scram.items():
            add_scram_user(cluster, user, password)
        yield cluster
    finally:
        cluster.close()


def add_scram_user(cluster: KafkaCluster, user: str, password: str) -> None:
    """Add a user that logs in with SCRAM-SHA-256, or set the password of one."""
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4_096)
    change = UserScramCredentialUpsertion(user, info, password.encode())
    admin = cluster.admin()
    until(lambda: len(admin.list_topics(timeout=START_S).brokers) == NODES)  # the client looks for a controller once
    admin.alter_user_scram_credentials([change])[user].result(START_S)


def login_file(path: Path, user: str, password: str, mechanism: str = "PLAIN") -> Path:
    """Write the settings of a client that logs in."""
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }
    path.write_text("".join(f"{name} = {value}\n" for name, value in settings.items()))
    return path
