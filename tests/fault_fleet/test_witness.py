"""The witness finds a receipt that is lost, doubled, or given after a fence."""

from __future__ import annotations

from dataclasses import replace

from forebay.client import Durability
from tests.fault_fleet.fleet import Service
from tests.fault_fleet.witness import Confirmed, judge

SERVICES = [Service("a", 1, 10.0), Service("b", 1, 20.0), Service("a", 2, 30.0)]
GIVEN = Confirmed("a", 1, asked_s=11.0, answered_s=11.1, value=b"a-1", offset=0, durability=Durability.REPLICATED)


def test_a_receipt_before_the_successor_serves_for_a_record_that_is_there_once_breaks_nothing() -> None:
    found = judge({0: b"a-1"}, [GIVEN], SERVICES)

    assert (found.lost, found.doubled, found.after_fence, found.weak, found.answered_late) == ([], [], [], [], 0)


def test_a_record_that_is_missing_or_elsewhere_is_lost() -> None:
    assert judge({}, [GIVEN], SERVICES).lost == [GIVEN]
    assert judge({0: b"b-1", 1: b"a-1"}, [GIVEN], SERVICES).lost == [GIVEN]


def test_a_record_that_stands_twice_is_doubled() -> None:
    assert judge({0: b"a-1", 1: b"b-7", 2: b"a-1"}, [GIVEN], SERVICES).doubled == [b"a-1"]


def test_a_receipt_for_a_record_sent_after_the_successor_served_is_given_after_a_fence() -> None:
    after = replace(GIVEN, asked_s=20.5, answered_s=20.6)

    assert judge({0: b"a-1"}, [after], SERVICES).after_fence == [after]
    assert judge({0: b"a-1"}, [replace(after, member="b")], SERVICES).after_fence == []
    assert judge({0: b"a-1"}, [replace(after, life=2, asked_s=99.0)], SERVICES).after_fence == []


def test_a_receipt_that_arrives_late_is_counted_apart() -> None:
    late = replace(GIVEN, asked_s=19.9, answered_s=20.1)

    found = judge({0: b"a-1"}, [late], SERVICES)

    assert (found.after_fence, found.answered_late) == ([], 1)


def test_a_receipt_for_what_only_memory_has_is_weak() -> None:
    weak = replace(GIVEN, durability=Durability.MEMORY)

    assert judge({0: b"a-1"}, [weak], SERVICES).weak == [weak]
