from __future__ import annotations

from confluent_kafka import KafkaError

from forebay.broker.storage.replication.engines.kafka.connection.trouble import Trouble


def test_an_error_of_the_client_is_a_part_of_messages_while_it_is_recent() -> None:
    now = [100.0]
    trouble = Trouble(30.0, lambda: now[0])
    assert trouble.text() == ""

    trouble.note(KafkaError(KafkaError._TRANSPORT, "connection refused"))

    assert trouble.text() == " (connection refused)"
    now[0] = 130.5
    assert trouble.text() == ""


def test_errors_that_explain_nothing_do_not_replace_one_that_does() -> None:
    trouble = Trouble(30.0)
    trouble.note(KafkaError(KafkaError._AUTHENTICATION, "the password is wrong"))

    trouble.note(KafkaError(KafkaError._ALL_BROKERS_DOWN, "all are down"))
    trouble.note(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED, "no right on the group"))

    assert "the password is wrong; check" in trouble.text()
    assert trouble.text("it failed: the password is wrong") == ""


def test_a_confirmation_while_the_message_of_an_error_is_worded_does_not_disturb_it() -> None:
    confirmed = list[Trouble]()

    def clock() -> float:
        for one in confirmed:
            one.clear()
        return 100.0

    trouble = Trouble(30.0, clock)
    trouble.note(KafkaError(KafkaError._TRANSPORT, "connection refused"))
    confirmed.append(trouble)

    assert trouble.text() == " (connection refused)"
