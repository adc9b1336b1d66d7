from __future__ import annotations

from forebay.broker.storage.replication.engines.kafka.objects.carrying import best_cut, is_free
from forebay.broker.storage.replication.engines.kafka.objects.message import Header, MessageKind
from forebay.broker.storage.replication.engines.kafka.objects.table import Objects


def objects_of(*names: str, size: int = 10) -> Objects:
    """Objects after as many replacements, each of which makes the one before of its name garbage."""
    objects = Objects(0)
    for number, name in enumerate(names):
        objects.take(Header(MessageKind.PUT, 1, number, name), size, b"x" * size)
    return objects


def test_nothing_is_cut_while_there_is_little_garbage() -> None:
    assert best_cut(objects_of("a", "a", "a"), garbage_bytes=21) is None


def test_garbage_before_the_first_object_is_cut_without_a_carry() -> None:
    cut = best_cut(objects_of("a", "a", "a"), garbage_bytes=20)

    assert cut is not None
    assert (cut.base, cut.carried, cut.freed_bytes) == (2, (), 20)


def test_an_object_in_the_way_is_carried_where_that_frees_twice_its_bytes() -> None:
    few = best_cut(objects_of("fence", "a", "a", "a"), garbage_bytes=1)
    enough = best_cut(objects_of("fence", "a", "a", "a", "a"), garbage_bytes=1)

    assert few is not None
    assert enough is not None
    assert [found.name for found in few.carried] == ["fence"]
    assert (few.base, few.freed_bytes) == (3, 20)
    assert (enough.base, enough.freed_bytes) == (4, 30)
    assert best_cut(objects_of("fence", "a", "a"), garbage_bytes=1) is None


def test_no_base_is_below_the_end_of_an_earlier_carry_for_a_lower_one() -> None:
    objects = objects_of("a", "a", "a", "a", "b")
    objects.take(Header(MessageKind.CARRY, 1, 9, "b", base=1, origin=4), 10, b"x" * 10)

    cut = best_cut(objects, garbage_bytes=1)

    assert [objects.may_begin_at(base) for base in range(7)] == [True, True, False, False, False, False, True]
    assert cut is not None
    assert cut.base == 6


def test_a_carry_that_was_not_completed_leaves_lower_bases_as_they_are() -> None:
    objects = objects_of(*["a"] * 9, "b", "c")
    objects.take(Header(MessageKind.CARRY, 1, 99, "b", base=11, origin=9), 10, b"x" * 10)

    cut = best_cut(objects, garbage_bytes=1)

    assert cut is not None
    assert (cut.base, cut.carried, cut.freed_bytes) == (8, (), 80)


def test_no_base_is_after_the_first_part_of_a_change_that_is_not_complete() -> None:
    objects = objects_of("a", "a", "a")
    objects.take(Header(MessageKind.PUT, 2, 0, "b", 0, 0), 10, b"x" * 10)
    for number in range(5, 9):
        objects.take(Header(MessageKind.PUT, 1, number, "a"), 10, b"x" * 10)

    cut = best_cut(objects, garbage_bytes=1)

    assert cut is not None
    assert cut.base == 3


def test_a_base_is_free_once_nothing_is_left_below_it_and_no_carry_for_a_lower_one_is_after_it() -> None:
    objects = objects_of("b", "a", "a", "a")
    assert [is_free(objects, base) for base in (0, 1)] == [True, False]
    objects.take(Header(MessageKind.CARRY, 1, 9, "b", base=2, origin=0), 10, b"x" * 10)

    assert objects.lowest() == 3
    assert [is_free(objects, base) for base in range(1, 5)] == [True, True, False, False]
