from __future__ import annotations

from itertools import count

from forebay.broker.storage.replication.engines.kafka.objects.message import Header, MessageKind
from forebay.broker.storage.replication.engines.kafka.objects.table import Change, Objects

CREATE, PUT, DELETE, CARRY, ABANDON = MessageKind
NUMBERS = count()


def take(
    objects: Objects, kind: MessageKind, name: str, content: bytes = b"x", *, base: int = 0, origin: int = 0
) -> bool:
    header = Header(kind, 7, next(NUMBERS), "" if kind is DELETE else name, base=base, origin=origin)
    value = name.encode() if kind is DELETE else content
    change = objects.take(header, len(value), value)
    assert change is not None
    return change.has_effect


def test_of_two_creations_the_first_has_an_effect() -> None:
    objects = Objects(0)

    assert take(objects, CREATE, "a", b"first")
    assert not take(objects, CREATE, "a", b"other")
    found = objects.get("a")
    assert found is not None
    assert (found.offsets, found.begin, found.size) == ((0,), b"first", 5)


def test_a_replacement_and_a_deletion_have_an_effect_always() -> None:
    objects = Objects(0)
    take(objects, CREATE, "a", b"first")

    assert take(objects, PUT, "a", b"second")
    assert take(objects, PUT, "b", b"other")
    assert objects.live_bytes == 11
    assert take(objects, DELETE, "a\nmissing")
    assert [found.name for found in objects.all()] == ["b"]
    assert objects.live_bytes == 5
    assert take(objects, CREATE, "a", b"again")


def test_a_change_of_several_parts_has_an_effect_with_its_last_message_in_whatever_order() -> None:
    objects = Objects(0)

    assert objects.take(Header(PUT, 7, 1, "a", 2, 3), 2, b"33") is None
    assert objects.take(Header(PUT, 7, 1, "a", 0, 0), 2, b"11") is None
    assert objects.take(Header(PUT, 7, 1, "a", 0, 0), 2, b"11") is None  # twice
    assert objects.take(None, 9, b"") is None  # of another program
    assert objects.get("a") is None
    assert objects.take(Header(PUT, 7, 1, "a", 1, 0), 2, b"22") == Change(7, 1, True)

    found = objects.get("a")
    assert found is not None
    assert (found.offsets, found.begin, found.size, found.origin, found.first) == ((1, 4, 0), b"11", 6, 4, 0)


def test_a_change_that_was_abandoned_has_no_effect_when_its_rest_arrives() -> None:
    objects = Objects(0)
    objects.take(Header(PUT, 7, 1, "a", 0, 0), 1, b"1")
    assert objects.incomplete() == {(7, 1): 0}

    objects.take(Header(ABANDON, 8, 1, base=7, origin=1), 0, b"")
    objects.take(Header(PUT, 7, 1, "a", 1, 2), 1, b"2")

    assert objects.get("a") is None


def test_a_carried_object_is_found_by_a_reader_that_begins_at_the_base() -> None:
    whole, cut = Objects(0), Objects(3)
    for objects in (whole, cut):
        if objects is whole:
            take(objects, CREATE, "a", b"right")  # offset 0
            take(objects, CREATE, "b")
            take(objects, DELETE, "b")
        take(objects, CREATE, "a", b"wrong")  # offset 3: without effect, unless the first one is cut off
        take(objects, CARRY, "a", b"right", base=3, origin=0)

        found = objects.get("a")
        assert found is not None
        assert (found.origin, found.offsets, found.begin) == (0, (4,), b"right")


def test_a_carry_does_not_undo_what_changed_the_object_meanwhile() -> None:
    for kind, expected in ((PUT, [b"new"]), (DELETE, [])):
        objects = Objects(0)
        take(objects, CREATE, "a", b"old")
        take(objects, kind, "a", b"new")

        assert not take(objects, CARRY, "a", b"old", base=1, origin=0)
        assert [found.begin for found in objects.all()] == expected


def test_a_carry_of_an_object_that_was_deleted_before_the_begin_does_not_bring_it_back() -> None:
    objects = Objects(5)  # "a" came to be at 2 and was deleted at 4, after another broker had begun to carry it

    assert not take(objects, CARRY, "a", base=3, origin=2)
    assert objects.get("a") is None


def test_a_carry_that_comes_after_a_cut_at_a_higher_base_has_no_effect() -> None:
    objects = Objects(0)
    take(objects, PUT, "x", b"old")
    take(objects, DELETE, "x")
    take(objects, CREATE, "x", b"new")
    objects.cut(2)

    assert not take(objects, CARRY, "x", b"old", base=1, origin=0)
    found = objects.get("x")
    assert found is not None
    assert found.begin == b"new"


def test_bytes_are_counted_from_the_begin_that_is_left() -> None:
    objects = Objects(10)
    for size in (1, 2, 3):
        take(objects, PUT, f"{size}", b"x" * size)

    assert [objects.bytes_before(offset) for offset in (10, 11, 13)] == [0, 1, 6]
    objects.cut(12)
    assert (objects.begin, objects.end, objects.bytes_before(13)) == (12, 13, 3)
    objects.cut(11)
    assert objects.begin == 12


def test_a_late_carry_of_an_object_that_was_removed_and_cut_has_no_effect_for_any_reader() -> None:
    old, new = Objects(0), Objects(2)
    take(old, PUT, "a")
    take(old, DELETE, "a")
    old.cut(2)

    assert not take(old, CARRY, "a", base=1, origin=0)
    assert not take(new, CARRY, "a", base=1, origin=0)
    assert old.get("a") is new.get("a") is None


def test_the_bytes_after_a_message_are_those_of_all_later_ones_also_after_a_cut() -> None:
    objects = Objects(5)
    for size in (3, 4, 5):
        take(objects, PUT, "a", b"x" * size)

    assert [objects.bytes_after(offset) for offset in (5, 6, 7)] == [9, 5, 0]
    objects.cut(6)
    assert [objects.bytes_after(offset) for offset in (6, 7)] == [5, 0]
