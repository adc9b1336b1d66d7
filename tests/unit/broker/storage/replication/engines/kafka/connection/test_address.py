from __future__ import annotations

from pathlib import Path

import pytest

from forebay.broker.storage.replication.engine import EngineUnsuitable
from forebay.broker.storage.replication.engines.kafka.connection.address import parse_address


def test_an_address_names_servers_and_a_topic() -> None:
    found = parse_address("kafka://a:9092,b.example:9093,[::1]:9094/orders-journal")

    assert (found.servers, found.topic, dict(found.settings)) == (
        "a:9092,b.example:9093,[::1]:9094",
        "orders-journal",
        {},
    )
    assert str(found) == "kafka://a:9092,b.example:9093,[::1]:9094/orders-journal"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("kafka://a/topic", "with a port for each host"),
        ("kafka:///topic", "with a port for each host"),
        ("kafka://a:1,,b:2/topic", "with a port for each host"),
        ("kafka://user:secret@a:9092/topic", "without credentials"),
        ("kafka://user:sec/secret@a:9092/topic", "without credentials"),
        ("kafka://[bad/topic", "the address is no URL"),
        ("kafka://a:9092/", "the topic is ''"),
        ("kafka://a:9092/one/two", "the topic is 'one/two'"),
        ("kafka://a:9092/..", "the topic is '..'"),
        ("kafka://a:9092/topic?acks=1", "the option 'acks' is unknown"),
        ("kafka://a:9092/topic?config=/missing", "/missing cannot be read"),
    ],
)
def test_an_address_that_names_no_topic_is_refused(text: str, problem: str) -> None:
    with pytest.raises(EngineUnsuitable) as error:
        parse_address(text)

    assert problem in str(error.value)
    assert "secret" not in str(error.value)


def test_settings_of_the_client_are_read_from_a_file_and_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# TLS\n\nsecurity.protocol = SASL_SSL\nsasl.password=a=b c \n! old style\n")

    found = parse_address(f"kafka://a:9092/topic?config={file}")

    assert dict(found.settings) == {"security.protocol": "SASL_SSL", "sasl.password": "a=b c"}
    assert "a=b" not in repr(found)
    assert "a=b" not in str(found)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("acks=1", "has acks; settings that begin with security, sasl"),
        ("bootstrap.servers=b:1", "has bootstrap.servers; settings that begin with"),
        ("security.protocol", "line 1 of"),
        ("=x", "must be NAME = VALUE"),
    ],
)
def test_a_setting_that_decides_what_a_receipt_means_is_refused(tmp_path: Path, line: str, problem: str) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"{line}\n")

    with pytest.raises(EngineUnsuitable) as error:
        parse_address(f"kafka://a:9092/topic?config={file}")

    assert problem in str(error.value)
