"""Refusals of Kafka, of a login or of a request without a right, and their remedies."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError, KafkaException

from forebay.broker.storage.replication.engine import EngineAway, EngineRefused

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

PROTOCOL_REMEDY: Final = (
    "a node that wants a login or TLS ends such a connection: name a file with security.protocol, ?config=FILE after "
    "the topic"
)
_NOT_CONNECTED: Final = ("Connect to", "Failed to resolve", "setup timed out")
"""Beginnings of what the client says of a node that it has not reached."""


def ended_by_node(error: KafkaError) -> bool:
    """Return whether a node has ended a connection, as it does where it wants another protocol."""
    return error.code() == KafkaError._TRANSPORT and not any(part in error.str() for part in _NOT_CONNECTED)


def is_refusal(error: KafkaError) -> bool:
    """Return whether an error stays until a login or a right is changed."""
    return error.code() in _LOGIN or error.code() in _RIGHTS


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
    if found.code() in _RIGHTS and right:
        return f"{text.rstrip('.')}: the user of the journal has no right {right}; grant it in Kafka"
    return text


def failure_of(where: str, error: KafkaException, *, right: str) -> EngineAway:
    """Return the error of a request that needs a right; ``where`` begins its text."""
    found = error.args[0] if error.args else error
    kind = EngineRefused if isinstance(found, KafkaError) and is_refusal(found) else EngineAway
    return kind(f"{where}: {reason_of(error, right=right)}")
