from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from forebay.broker.storage.replication.engine import EngineAway, EngineRefused, EngineUntrusted
from forebay.broker.storage.replication.engines.kafka.connection.access import (
    ended_by_node,
    failure_of,
    is_refusal,
    protocol_remedy,
    reason_of,
)

LOGIN = KafkaError(KafkaError._AUTHENTICATION, "Invalid username or password")
RIGHT = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
UNTRUSTED = KafkaError(
    KafkaError._SSL, "ssl://a:1/bootstrap: SSL handshake failed: error:0A000086:SSL routines::certificate verify failed"
)
CLIENT = KafkaError(
    KafkaError._TRANSPORT, "ssl://a:1/1: Receive failed: ssl/tls alert certificate required: SSL alert number 116"
)
SILENT = KafkaError(KafkaError._TIMED_OUT, "Timed out")
KINDS = [
    (LOGIN, EngineRefused),
    (RIGHT, EngineRefused),
    (CLIENT, EngineRefused),
    (UNTRUSTED, EngineUntrusted),
    (SILENT, EngineAway),
]


def test_a_login_that_is_refused_has_the_settings_to_check_in_its_text() -> None:
    assert reason_of(LOGIN).startswith("Kafka refuses the login: Invalid username or password; check security.protocol")


def test_a_request_without_a_right_names_the_right() -> None:
    assert reason_of(KafkaException(RIGHT), right="Read on the topic") == (
        "Topic authorization failed: the user of the journal has no right Read on the topic; grant it in Kafka"
    )


def test_a_certificate_that_is_not_accepted_has_what_to_check_in_its_text() -> None:
    assert reason_of(UNTRUSTED).startswith("the certificate of Kafka is not accepted: ssl://a:1/bootstrap: ")
    assert "check that ssl.ca.location names the file of the authority" in reason_of(UNTRUSTED)


def test_a_node_that_wants_a_certificate_has_what_to_set_in_its_text() -> None:
    assert reason_of(CLIENT).startswith("Kafka demands a certificate that it trusts: ssl://a:1/1: ")
    assert "with ssl.certificate.location and ssl.key.location in the file" in reason_of(CLIENT)


def test_an_alert_that_is_not_about_a_certificate_is_no_refusal() -> None:
    assert not is_refusal(KafkaError(KafkaError._SSL, "tlsv1 alert protocol version: SSL alert number 70"))


def test_nodes_that_end_connections_are_named_with_the_protocol_that_was_used() -> None:
    assert "name a file with security.protocol, ?config=FILE after the topic" in protocol_remedy({})
    assert "another protocol than security.protocol = SSL ends" in protocol_remedy({"security.protocol": "SSL"})


def test_other_errors_say_what_the_client_says() -> None:
    assert reason_of(SILENT, right="Read on the topic") == "Timed out"
    assert reason_of(KafkaException("no such setting")) == "no such setting"


@pytest.mark.parametrize(("error", "kind"), KINDS)
def test_a_refusal_has_a_type_of_its_own(error: KafkaError, kind: type[EngineAway]) -> None:
    failure = failure_of("kafka://a:1/b", KafkaException(error), right="Read on the topic")

    assert type(failure) is kind
    assert is_refusal(error) is (kind is EngineRefused)
    assert str(failure).startswith("kafka://a:1/b: ")


@pytest.mark.parametrize(
    ("text", "is_ended"),
    [
        ("127.0.0.1:1/bootstrap: Send failed: Broken pipe (after 0ms in state UP)", True),
        ("127.0.0.1:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection refused", False),
        ("a:1/bootstrap: Failed to resolve 'a:1': Name or service not known", False),
    ],
)
def test_a_connection_that_a_node_ends_differs_from_one_that_was_not_made(text: str, is_ended: bool) -> None:
    assert ended_by_node(KafkaError(KafkaError._TRANSPORT, text)) is is_ended
    assert not ended_by_node(KafkaError(KafkaError._TIMED_OUT, text))
    assert ended_by_node(KafkaError(KafkaError._ALL_BROKERS_DOWN, "3/3 brokers are down"))
