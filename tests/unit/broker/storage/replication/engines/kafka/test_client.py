from __future__ import annotations

from confluent_kafka import KafkaError

from forebay.broker.storage.replication.engines.kafka.client import Trouble


def test_an_error_of_the_client_is_a_part_of_messages_while_it_is_recent() -> None:
    now = [100.0]
    trouble = Trouble(30.0, lambda: now[0])
    assert trouble.text() == ""

    trouble.note(KafkaError(KafkaError._TRANSPORT, "connection refused"))

    assert trouble.text() == " (connection refused)"
    now[0] = 130.5
    assert trouble.text() == ""
