"""Refusals of Kafka: of a connection, a login, or a request without a right. And their remedies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from forebay.broker.storage.replication.engine import EngineAway, EngineRefused, EngineUntrusted

_LOGIN: Final = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError.ILLEGAL_SASL_STATE,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
    }
)
_RIGHTS: Final = frozenset({KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED})
LOGIN_REMEDY: Final = (
    "check security.protocol, sasl.mechanisms, sasl.username and sasl.password in the file that ?config= of the "
    "journal's address names"
)

CERTIFICATE_REMEDY: Final = (
    "check that ssl.ca.location names the file of the authority that signed it, that it names the host of the node, "
    "and that it has not expired"
)
CLIENT_REMEDY: Final = (
    "name one that the nodes trust, and its key, with ssl.certificate.location and ssl.key.location in the file that "
    "?config= of the journal's address names"
)
_NOT_CONNECTED: Final = ("Connect to", "Failed to resolve", "setup timed out")
"""Beginnings of what the client says of a node that it has not reached."""
_UNTRUSTED: Final = "certificate verify failed"
_ALERT: Final = re.compile(r"SSL alert number (\d+)")
_CLIENT_ALERTS: Final = frozenset({"42", "43", "44", "45", "46", "48", "116"})
"""Alerts of TLS with which a node refuses the certificate of a client, or that it has none."""


class ConnectionEnded(EngineAway):
    """Nodes end the connections that are made to them: they want another protocol, or they stop."""


def ended_by_node(error: KafkaError) -> bool:
    """Return whether a node has ended a connection, as it does where it wants another protocol.

    The client tells the reasons for which a node was not reached. Of nodes that end its connections it may tell no more
    than that all are down.
    """
    if error.code() == KafkaError._ALL_BROKERS_DOWN:
        return True
    return error.code() == KafkaError._TRANSPORT and not any(part in error.str() for part in _NOT_CONNECTED)


def protocol_remedy(settings: Mapping[str, str]) -> str:
    """Return what to do where nodes end the connections that are made with some settings."""
    protocol = settings.get("security.protocol")
    if protocol is None:
        return (
            "a node that wants a login or TLS ends such a connection: name a file with security.protocol, ?config=FILE "
            "after the topic"
        )
    return (
        f"a node that wants another protocol than security.protocol = {protocol} ends such a connection: name the one "
        "of the listener at this port in the file that ?config= of the journal's address names"
    )


def is_untrusted(error: KafkaError) -> bool:
    """Return whether the certificate of a node is not accepted."""
    return error.code() in {KafkaError._SSL, KafkaError._TRANSPORT} and _UNTRUSTED in error.str()


def wants_certificate(error: KafkaError) -> bool:
    """Return whether a node refuses the certificate of this client, or that it has none."""
    alert = _ALERT.search(error.str()) if error.code() in {KafkaError._SSL, KafkaError._TRANSPORT} else None
    return alert is not None and alert[1] in _CLIENT_ALERTS


def is_refusal(error: KafkaError) -> bool:
    """Return whether an error stays until a login, a right, or a certificate of this client is changed."""
    return error.code() in _LOGIN or error.code() in _RIGHTS or wants_certificate(error)


def kind_of(error: KafkaError) -> type[EngineAway]:
    """Return the type of the failure that an error of the client is."""
    if is_untrusted(error):
        return EngineUntrusted
    return EngineRefused if is_refusal(error) else EngineAway


def reason_of(error: KafkaError | KafkaException, *, right: str = "") -> str:
    """Return the text of an error of the client, and of a refusal what to do.

    ``right`` is what the request needs, as Kafka's access control lists name it.
    """
    found = error.args[0] if isinstance(error, KafkaException) and error.args else error
    if not isinstance(found, KafkaError):
        return str(found)
    text = str(found.str())
    if found.code() in _LOGIN:
        return f"Kafka refuses the login: {text}; {LOGIN_REMEDY}"
    if is_untrusted(found):
        return f"the certificate of Kafka is not accepted: {text}; {CERTIFICATE_REMEDY}"
    if wants_certificate(found):
        return f"Kafka demands a certificate that it trusts: {text}; {CLIENT_REMEDY}"
    if found.code() in _RIGHTS and right:
        return f"{text.rstrip('.')}: the user of the journal has no right {right}; grant it in Kafka"
    return text


def failure_of(address: str, error: KafkaException, *, right: str, what: str = "") -> EngineAway:
    """Return the error of a request that needs a right; ``what`` was not done, if it is not clear."""
    found = error.args[0] if error.args else error
    kind = kind_of(found) if isinstance(found, KafkaError) else EngineAway
    return kind(f"{what}: {reason_of(error, right=right)}" if what else reason_of(error, right=right), address)
