from __future__ import annotations

from forebay.broker.core import errors


def test_facts_are_short_strings() -> None:
    error = errors.OffsetTrimmed(3, earliest=5, next_offset=9)

    assert error.facts == {"requested": "3", "earliest": "5", "next": "9"}


def test_a_message_says_what_is_and_what_was_asked() -> None:
    assert str(errors.RecordTooLarge(9, 8, "a record")) == "a record of 9 bytes is over the bound of 8 bytes"


def test_a_wrong_field_is_a_fact_and_an_attribute() -> None:
    error = errors.InvalidPage("wrong", field="body")

    assert error.facts == {"field": "body"}


def test_a_writer_that_is_not_known_any_more_gets_that_answer() -> None:
    assert "no longer known" in str(errors.WriterFenced("w", 3, None))
    assert "now at epoch 4" in str(errors.WriterFenced("w", 3, 4))


def test_only_what_may_be_repeated_says_when() -> None:
    assert errors.SinkFull("s", "max_disk_cache", 1, 1).retry_after_s == 0.25
    assert errors.TooManySinks("sinks", 1).retry_after_s is None
    assert errors.SinkNotFound("s").retry_after_s is None
