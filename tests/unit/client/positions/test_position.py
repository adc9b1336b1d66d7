"""Documents of saved positions."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from forebay.client import InvalidArgument
from forebay.client.errors import PositionDamaged
from forebay.client.positions.position import DOCUMENT_BYTES_MAX, FORMER_MAX, PositionKey, SavedPosition

SAVED = SavedPosition("b3e9e39e7bf36ee1", 1200, 3, "b41d", datetime(2026, 11, 23, 1, 2, 3, 4000, UTC))


def test_a_document_is_json_that_a_person_can_read() -> None:
    assert SAVED.encode() == (
        b'{"format":1,"incarnation":"b3e9e39e7bf36ee1","offset":1200,"epoch":3,"owner":"b41d",'
        b'"saved_at":"2026-11-23T01:02:03.004+00:00"}'
    )
    assert SavedPosition.decode("key", SAVED.encode()) == SAVED
    assert len(SAVED.encode()) < DOCUMENT_BYTES_MAX


def test_the_document_of_a_query_that_writes_names_those_that_it_replaced() -> None:
    third = replace(SAVED, owner="c", former=replace(SAVED, owner="b", former=("a",)).replaced_by("c"))

    assert third.former == ("b", "a")
    assert third.encode().endswith(b'"former":["b","a"]}')
    assert SavedPosition.decode("key", third.encode()) == third
    assert third.replaced_by("a") == ("c", "b"), "who returns is no longer replaced"
    assert len(replace(SAVED, former=tuple("abc" * FORMER_MAX)).replaced_by("new")) == FORMER_MAX


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        SAVED.encode()[:-2],
        SAVED.encode().replace(b"1200", b"-1"),
        SAVED.encode().replace(b"1200", b"9223372036854775808"),
        SAVED.encode().replace(b"1200", b"1.5"),
        SAVED.encode().replace(b"1200", b"true"),
        SAVED.encode().replace(b'"epoch":3', b'"epoch":0'),
        SAVED.encode().replace(b"2026-11", b"2026-13"),
        SAVED.encode()[:-1] + b',"former":7}',
    ],
)
def test_anything_else_is_a_damaged_position_that_names_its_key(document: bytes) -> None:
    with pytest.raises(PositionDamaged, match="default/billing/orders/0"):
        SavedPosition.decode("default/billing/orders/0", document)


def test_a_document_of_a_later_version_names_its_format() -> None:
    with pytest.raises(PositionDamaged, match="its format is 2, this version reads format 1"):
        SavedPosition.decode("key", SAVED.encode().replace(b'"format":1', b'"format":2'))


def test_a_key_is_parsed_as_it_is_written() -> None:
    key = PositionKey("default", "billing", "orders.dlq", 7)

    assert str(key) == "default/billing/orders.dlq/7"
    assert PositionKey.parse(str(key)) == key


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden", "a b", "ä", "x" * 129, "a\n"])
def test_a_name_that_a_store_could_not_keep_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="name = "):
        PositionKey("default", name, "orders", 0)
    with pytest.raises(InvalidArgument, match="namespace = "):
        PositionKey(name, "billing", "orders", 0)
