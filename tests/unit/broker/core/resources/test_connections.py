"""Connections to close when there are too many: the least useful ones, and never more than needed."""

from __future__ import annotations

from forebay.broker.core.resources.connections import (
    IDLE_GRACE_S,
    UNREAD_LEAST,
    Connection,
    ConnectionLimits,
    Progress,
    Use,
    excess,
)

NOW = 1_000.0
KIB = 1 << 10
LIMITS = ConnectionLimits(total_max=16, per_host_max=4, unread_max=1_000 * KIB)


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


def test_connections_closed_for_the_bound_of_a_host_count_for_the_bound_of_all() -> None:
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


def holding(number: int, kib: int, *, host: str = "", progress: Progress = Progress.READ) -> Connection:
    return Connection(number, host or f"host-{number}", NOW, unread=kib * KIB, progress=progress)


def test_those_whose_requests_hold_the_most_are_closed_until_the_rest_is_within_the_bound() -> None:
    held = [holding(n, kib) for n, kib in enumerate((700, 100, 900, 200))]

    found = excess(held, LIMITS, NOW)

    assert ids(found.of_unread) == [2]
    assert not excess(held[:2], LIMITS, NOW)


def test_of_incomplete_requests_those_that_stopped_arriving_are_closed_first_then_those_that_only_arrive() -> None:
    read = holding(0, 900)
    arriving = holding(1, 300, progress=Progress.ARRIVING)
    stalled = [holding(2, 100, progress=Progress.STALLED), holding(3, 200, progress=Progress.STALLED)]

    found = excess([read, arriving, *stalled], LIMITS, NOW)

    assert ids(found.of_unread) == [3, 2, 1]


def test_a_host_with_many_small_incomplete_requests_is_closed_before_one_with_a_large_one() -> None:
    many = [holding(n, 80, host="many") for n in range(8)]
    large = holding(20, 500)
    limits = ConnectionLimits(total_max=16, per_host_max=8, unread_max=1_000 * KIB)

    found = excess([large, *many], limits, NOW)

    assert ids(found.of_unread) == [0, 1]


def test_a_few_bytes_too_many_of_each_connection_are_no_incomplete_requests() -> None:
    counted = [Connection(n, f"host-{n}", NOW, NOW, 1, UNREAD_LEAST - 1) for n in range(1_000)]
    limits = ConnectionLimits(total_max=2_000, per_host_max=4, unread_max=1)

    assert not excess(counted, limits, NOW)
