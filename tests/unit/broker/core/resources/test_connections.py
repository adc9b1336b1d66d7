"""Connections to close when there are too many: the least useful ones, and never more than needed."""

from __future__ import annotations

from forebay.broker.core.resources.connections import IDLE_GRACE_S, Connection, ConnectionLimits, Use, excess

NOW = 1_000.0
LIMITS = ConnectionLimits(total_max=16, per_host_max=4, unread_max=1_000)


def strangers(count: int, *, host: str = "a", first: int = 0, opened_at: float = NOW - 100.0) -> list[Connection]:
    return [Connection(first + n, host, opened_at + n) for n in range(count)]


def ids(connections: object) -> list[int]:
    assert isinstance(connections, list | tuple)
    return [connection.id for connection in connections]


def test_nothing_is_closed_within_the_bounds() -> None:
    assert not excess([*strangers(4), *strangers(4, host="b", first=4)], LIMITS, NOW)


def test_the_oldest_strangers_of_a_host_beyond_its_bound_are_closed() -> None:
    found = excess(strangers(6), LIMITS, NOW)

    assert ids(found.of_hosts) == [0, 1]
    assert not found.of_all


def test_of_one_host_strangers_go_first_then_idle_ones_then_the_newest_busy_ones() -> None:
    busy = [Connection(n, "a", NOW - 50.0 + n, NOW, calls=1) for n in range(5)]
    idle = Connection(10, "a", NOW - 100.0, NOW - 1.0)
    stranger = Connection(11, "a", NOW)

    found = excess([*busy, idle, stranger], LIMITS, NOW)

    assert ids(found.of_hosts) == [11, 10, 4]


def test_near_the_bound_of_all_the_strangers_of_the_host_with_the_most_are_closed() -> None:
    few = [Connection(100 + n, f"few-{n}", NOW - 100.0) for n in range(11)]

    found = excess([*few, *strangers(4)], LIMITS, NOW)

    assert ids(found.of_all) == [0, 1, 2]


def test_a_connection_with_an_open_call_is_never_closed_for_the_bound_of_all() -> None:
    busy = [Connection(n, f"host-{n}", NOW - 100.0, NOW - 90.0, calls=1) for n in range(16)]

    assert not excess(busy, LIMITS, NOW)


def test_a_newcomer_has_time_for_its_first_call() -> None:
    new = [Connection(n, f"host-{n}", NOW - 0.5) for n in range(16)]

    assert not excess(new, LIMITS, NOW)
    assert len(excess(new, LIMITS, NOW + 1.0).of_all) == 4


def test_idle_connections_go_after_strangers_the_least_recently_used_first() -> None:
    idle = [Connection(n, f"host-{n}", NOW - 500.0, NOW - IDLE_GRACE_S - n) for n in range(15)]
    stranger = Connection(20, "stranger", NOW - 5.0)

    found = excess([*idle, stranger], LIMITS, NOW)

    assert ids(found.of_all) == [20, 14, 13, 12]


def test_a_connection_that_was_just_used_is_not_idle() -> None:
    used = [Connection(n, f"host-{n}", NOW - 500.0, NOW - IDLE_GRACE_S + 0.1) for n in range(16)]

    assert not excess(used, LIMITS, NOW)


def test_what_a_host_loses_counts_for_the_bound_of_all() -> None:
    found = excess([*strangers(12), *[Connection(100 + n, f"b-{n}", NOW - 9.0) for n in range(8)]], LIMITS, NOW)

    assert len(found.of_hosts) == 8
    assert not found.of_all


def test_a_connection_has_the_use_of_its_calls() -> None:
    uses = [
        Connection(0, "a", NOW).use,
        Connection(0, "a", NOW, used_at=NOW).use,
        Connection(0, "a", NOW, used_at=NOW, calls=1).use,
    ]

    assert uses == [Use.STRANGER, Use.IDLE, Use.BUSY]


def test_those_that_sent_the_most_without_a_call_are_closed_until_the_rest_is_within_the_bound() -> None:
    sent = [Connection(n, f"host-{n}", NOW, unread=unread) for n, unread in enumerate((700, 100, 900, 200))]

    found = excess(sent, LIMITS, NOW)

    assert ids(found.of_unread) == [2]
    assert not excess(sent[:2], LIMITS, NOW)
