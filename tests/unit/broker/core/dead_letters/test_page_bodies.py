from __future__ import annotations

from forebay.broker.core.dead_letters.letters import DeadLetter, Origin, PlainRecord, RejectionReason
from forebay.broker.core.dead_letters.page_bodies import PageBodies

UNCUT = "not what its publisher said"


def letter(
    offset: int, at: int, value: bytes = b"", *, uncut: str = UNCUT, subscription: str = "default"
) -> DeadLetter:
    """A dead letter at ``offset`` that was the record at ``at``."""
    origin = Origin(RejectionReason.REJECTED, "never", 1, subscription, "orders", "abc", 0, at, 7)
    return DeadLetter(offset, 7, origin, PlainRecord(value), uncut)


def test_one_with_a_body_is_free_when_nothing_relies_on_it() -> None:
    bodies = PageBodies()

    assert bodies.hold_back(letter(0, 10, b"body"))
    bodies.stays(letter(1, 11, uncut="", value=b"a record of its own"))
    bodies.stays(letter(2, 11, subscription="audit"))
    bodies.stays(letter(3, 10 + 3 * 65_536))

    assert (len(bodies), list(bodies.free())) == (1, [0])


def test_one_with_a_body_stays_while_another_of_its_page_stays_on_either_side() -> None:
    for other in (9, 12, 65_536, 65_545):
        bodies = PageBodies()

        bodies.hold_back(letter(0, 10, b"body"))
        bodies.stays(letter(1, other))

        assert list(bodies.free()) == []


def test_a_dead_letter_that_holds_no_body_of_its_page_is_not_held_back() -> None:
    bodies = PageBodies()
    foreign = DeadLetter(0, 7, None, PlainRecord(b"not ours"))

    assert not any(bodies.hold_back(one) for one in (letter(0, 1), letter(1, 2, b"record", uncut=""), foreign))
    bodies.stays(foreign)
    assert len(bodies) == 0
