from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from forebay.broker.storage.replication.engine import EngineAway, EngineRefused
from forebay.broker.storage.replication.engines.kafka.access import ended_by_node, failure_of, is_refusal, reason_of

LOGIN = KafkaError(KafkaError._AUTHENTICATION, "Invalid username or password")
RIGHT = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
SILENT = KafkaError(KafkaError._TIMED_OUT, "Timed out")


def test_a_login_that_is_refused_has_the_settings_to_check_in_its_text() -> None:
    assert reason_of(LOGIN).startswith("Kafka refuses the login: Invalid username or password; check security.protocol")


def test_a_request_without_a_right_names_the_right() -> None:
    assert reason_of(KafkaException(RIGHT), right="Read on the topic") == (
        "Topic authorization failed: the user of the journal has no right Read on the topic; grant it in Kafka"
    )


def test_other_errors_say_what_the_client_says() -> None:
    assert reason_of(SILENT, right="Read on the topic") == "Timed out"
    assert reason_of(KafkaException("no such setting")) == "no such setting"


@pytest.mark.parametrize(("error", "kind"), [(LOGIN, EngineRefused), (RIGHT, EngineRefused), (SILENT, EngineAway)])
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
