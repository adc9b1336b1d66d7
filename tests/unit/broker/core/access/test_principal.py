"""Rights cover the sinks that a pattern matches, and no other right and no other sink."""

from __future__ import annotations

import pytest

from forebay.broker.core.access.principal import Grant, Principal, Right, anonymous


def principal(*grants: tuple[Right, str]) -> Principal:
    return Principal("p", tuple(Grant(right, pattern) for right, pattern in grants))


@pytest.mark.parametrize(
    ("pattern", "sink", "covered"),
    [
        ("orders", "orders", True),
        ("orders", "orders2", False),
        ("orders", "my-orders", False),
        ("orders-*", "orders-eu", True),
        ("orders-*", "orders", False),
        ("*-eu", "orders-eu", True),
        ("a*b*c", "a1b2c", True),
        ("a*b*c", "a1c2b", False),
        ("a.b", "aXb", False),
        ("*", "anything", True),
        ("orders", "orders.dlq", True),
        ("orders.dlq", "orders", False),
        ("*.dlq", "orders.dlq", True),
    ],
)
def test_a_pattern_matches_whole_names_and_dead_letter_sinks_of_them(pattern: str, sink: str, covered: bool) -> None:
    assert principal((Right.PUBLISH, pattern)).may(Right.PUBLISH, sink) is covered


@pytest.mark.parametrize("given", list(Right))
@pytest.mark.parametrize("requested", list(Right))
def test_a_right_gives_itself_and_view_and_admin_gives_all(given: Right, requested: Right) -> None:
    expected = given is requested or given is Right.ADMIN or requested is Right.VIEW

    assert principal((given, "orders")).may(requested, "orders") is expected
    assert principal((given, "orders")).may_somewhere(requested) is expected
    assert not principal((given, "orders")).may(requested, "events")


def test_a_principal_without_access_control_may_do_everything() -> None:
    assert all(anonymous().may(right, "orders") for right in Right)
