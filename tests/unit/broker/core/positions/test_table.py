"""Saved positions: documents under a condition."""

from __future__ import annotations

import pytest

from forebay.broker.core.errors import BrokerError
from forebay.broker.core.positions import table as positions
from forebay.broker.core.positions.table import DOCUMENT_BYTES_MAX, PositionKey, PositionTable, parse_key, version_of
from forebay.errors.reasons import Reason

KEY = "default/billing/orders/0"


def test_a_document_is_written_under_the_version_that_is_stored() -> None:
    found = PositionTable({})

    first = found.write(KEY, b"1", "")
    second = found.write(KEY, b"2", first)

    assert found.get(KEY) == b"2"
    assert second == version_of(b"2") != first


@pytest.mark.parametrize("expected", ["", "another"])
def test_another_version_is_a_conflict_that_names_both_and_changes_nothing(expected: str) -> None:
    found = PositionTable({KEY: b"1"})

    with pytest.raises(BrokerError) as refused:
        found.write(KEY, b"2", expected)

    assert refused.value.reason is Reason.POSITION_CONFLICT
    assert refused.value.facts["stored"] == version_of(b"1")
    assert found.get(KEY) == b"1"


@pytest.mark.parametrize("size", [0, DOCUMENT_BYTES_MAX + 1])
def test_a_document_without_content_or_with_too_much_is_refused(size: int) -> None:
    with pytest.raises(BrokerError, match=f"document has {size} bytes"):
        PositionTable({}).write(KEY, bytes(size), "")


def test_positions_are_bounded_in_number_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "POSITIONS_MAX", 2)
    monkeypatch.setattr(positions, "BYTES_MAX", 10)
    found = PositionTable({"a/a/a/0": b"123", "a/a/a/1": b"123"})

    with pytest.raises(BrokerError) as refused:
        found.write(KEY, b"1", "")
    assert refused.value.reason is Reason.TOO_MANY_POSITIONS
    with pytest.raises(BrokerError):
        found.write("a/a/a/0", b"12345678", version_of(b"123"))
    found.delete("a/a/a/1")
    assert found.write(KEY, b"1", "")
    assert len(found) == 2


def test_keys_are_listed_by_prefix_after_a_key() -> None:
    found = PositionTable({f"a/b/c/{number}": b"1" for number in range(5)} | {"b/b/c/0": b"1"})

    assert found.list("a/", "", 3) == ["a/b/c/0", "a/b/c/1", "a/b/c/2"]
    assert found.list("a/", "a/b/c/2", 9) == ["a/b/c/3", "a/b/c/4"]
    assert found.list("", "", 99)[-1] == "b/b/c/0"
    assert found.list("zz", "", 9) == []


def test_a_position_that_does_not_exist_is_not_deleted() -> None:
    found = PositionTable({KEY: b"1"})

    assert found.delete(KEY)
    assert not found.delete(KEY)
    assert found.get(KEY) is None


@pytest.mark.parametrize(
    ("key", "field"),
    [
        (PositionKey("", "billing", "orders", 0), "key.namespace"),
        (PositionKey("default", "a/b", "orders", 0), "key.consumer"),
        (PositionKey("default", "billing", "..", 0), "key.sink"),
        (PositionKey("default", "billing", "orders", 1024), "key.partition"),
    ],
)
def test_a_key_of_another_form_is_refused_with_its_field(key: PositionKey, field: str) -> None:
    with pytest.raises(BrokerError) as refused:
        key.check()

    assert refused.value.reason is Reason.INVALID_POSITION_KEY
    assert refused.value.facts["field"] == field


def test_a_key_is_parsed_as_it_is_stored() -> None:
    key = PositionKey("default", "billing", "orders.dlq", 7)

    key.check()
    assert parse_key(str(key)) == key
