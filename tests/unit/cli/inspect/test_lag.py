"""Lag in a terminal of 80 and of 150 columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Final

import pytest
from rich.text import Text

from forebay.cli.inspect.lag import entries, lag_table, show_states
from forebay.cli.output import Output, console_for
from forebay.client.values.sinks import (
    DeliveryState,
    LifetimeTotals,
    ReaderMode,
    SinkStats,
    SubscriptionPartitionStats,
    SubscriptionStats,
)

AT: Final = datetime(2026, 11, 23, 11, 0).astimezone()


def lane(
    partition: int = 0, pending: int = 0, *, age_s: float = 0.0, state: DeliveryState = DeliveryState.FLOWING
) -> SubscriptionPartitionStats:
    return SubscriptionPartitionStats(
        partition=partition,
        start_offset=0,
        watermark=7,
        acked=7,
        dead_lettered=0,
        dropped=0,
        skipped=0,
        pending=pending,
        pending_bytes=pending * 1000,
        pending_age_s=age_s,
        in_flight=min(pending, 256),
        redelivered=0,
        state=state,
        retry_at=AT if state is DeliveryState.BACKING_OFF else None,
        reason="HTTP 503 from https://target.example/in" if state is DeliveryState.BACKING_OFF else "",
        mode=ReaderMode.UNSPECIFIED,
        mode_switches=0,
        identity_ok=True,
        pages_behind=0,
        lifetime=LifetimeTotals(7, 0, 0, 0, 0),
    )


def sink(
    name: str, *lanes: SubscriptionPartitionStats, consumers: int = 1, rates: tuple[float, float] = (0, 0)
) -> SinkStats:
    subscription = SubscriptionStats("default", lanes, consumers, settled_per_s=rates[1])
    return SinkStats(name, "i", (), (subscription,), AT, identity_ok=True, appended_per_s=rates[0], limit_used=0.25)


FLOWING: Final = sink("orders", lane(0, 1_200_000, age_s=95), lane(1, 34_567), rates=(400.0, 1_250.5))
IDLE: Final = sink("quiet", lane(), consumers=0)
NO_CONSUMER: Final = sink("audit-log", lane(0, 12_345_678, age_s=7500), consumers=0, rates=(12.0, 0.0))
BACKING_OFF: Final = sink(
    "a-sink-with-a-long-name-for-the-warehouse", lane(0, 900, age_s=350_000, state=DeliveryState.BACKING_OFF)
)
PAUSED: Final = sink("stopped", lane(state=DeliveryState.PAUSED))
FULL: Final = replace(sink("brim", lane(0, 5, age_s=0.35), rates=(0.0, 2.0)), full=True, limit_used=1.0)
ALL: Final = [NO_CONSUMER, BACKING_OFF, FLOWING, IDLE, PAUSED, FULL]


def shown(width: int, *found: SinkStats, partitions: bool = False, wide: bool = False) -> str:
    table = lag_table(found, partitions=partitions, wide=wide, paths=False, width=width)
    console = console_for(table, width)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def test_a_sink_is_one_line_of_80_columns_with_whole_numbers() -> None:
    assert (
        shown(80, *ALL)
        == """\
lag

 sink               state            waiting       oldest   out/s      empty in
 ──────────────────────────────────────────────────────────────────────────────
 audit-log          no consumer   12,345,678    2 h 5 min       0         never
 a-sink-with-a-l…   backing off          900      4 d 1 h       0         never
 orders             flowing        1,234,567   1 min 35 s   1,250   24 min 12 s
 quiet              idle                   0                    0
 stopped            paused                 0                    0
 brim               full                   5       350 ms       2         2.5 s
"""
    )


def test_a_wide_terminal_shows_long_names_whole() -> None:
    assert (
        shown(150, *ALL)
        == """\
lag

 sink                                        state            waiting       oldest   out/s      empty in
 ───────────────────────────────────────────────────────────────────────────────────────────────────────
 audit-log                                   no consumer   12,345,678    2 h 5 min       0         never
 a-sink-with-a-long-name-for-the-warehouse   backing off          900      4 d 1 h       0         never
 orders                                      flowing        1,234,567   1 min 35 s   1,250   24 min 12 s
 quiet                                       idle                   0                    0
 stopped                                     paused                 0                    0
 brim                                        full                   5       350 ms       2         2.5 s
"""
    )


def test_partitions_are_shown_on_request_in_80_columns() -> None:
    assert (
        shown(80, FLOWING, BACKING_OFF, partitions=True)
        == """\
lag

 sink              state         partition     waiting       oldest   in flight
 ──────────────────────────────────────────────────────────────────────────────
 orders            flowing               0   1,200,000   1 min 35 s         256
 orders            flowing               1      34,567         0 ms         256
 a-sink-with-a-…   backing off           0         900      4 d 1 h         256
"""
    )


def test_all_columns_are_shown_on_request_in_150_columns() -> None:
    assert (
        shown(150, *ALL, wide=True)
        == """\
lag

 sink          state            waiting       oldest        size   in flight   in/s   out/s      empty in   consumers   used   next try   reason
 ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
 audit-log     no consumer   12,345,678    2 h 5 min    11.5 GiB         256     12       0         never           0    25%
 a-sink-wit…   backing off          900      4 d 1 h   878.9 KiB         256      0       0         never           1    25%   11:00:00   HTTP 503 f…
 orders        flowing        1,234,567   1 min 35 s     1.1 GiB         512    400   1,250   24 min 12 s           1    25%
 quiet         idle                   0                      0 B           0      0       0                         0    25%
 stopped       paused                 0                      0 B           0      0       0                         1    25%
 brim          full                   5       350 ms     4.9 KiB           5      0       2         2.5 s           1   100%
"""  # noqa: E501 - lines of 150 characters
    )


def test_no_number_is_truncated_if_the_columns_do_not_all_fit() -> None:
    lines = shown(80, *ALL, wide=True).splitlines()

    table = "\n".join(lines)
    assert max(len(line) for line in lines if "hidden" not in line) <= 80
    assert "hidden for lack of width: in flight, used, consumers, size" in " ".join(table.split())
    assert [line for line in lines if "24 min 12 s" in line and "1,234,567" in line and "1,250" in line]


def test_the_state_is_in_colour_at_a_terminal() -> None:
    table = lag_table([NO_CONSUMER, FULL], partitions=False, wide=False, paths=False)

    [*_, state, _, _, _, _] = table.columns
    assert [cell.style for cell in state.cells if isinstance(cell, Text)] == ["yellow", "bold red"]


def test_of_several_subscriptions_the_line_is_about_the_one_that_needs_attention() -> None:
    audit = SubscriptionStats("audit", (lane(0, 3, age_s=60),), consumers=0)
    both = replace(FLOWING, subscriptions=(*FLOWING.subscriptions, audit))

    assert "orders/audit   no consumer         3   1 min 0 s" in shown(80, both)


def test_json_has_the_states_and_the_rates_beside_the_lag_of_each_partition() -> None:
    first, second = entries(replace(FLOWING, full=True))

    assert (first["flow"], first["subscription_flow"], first["sink_flow"]) == ("flowing", "flowing", "full")
    assert (first["consumers"], first["appended_per_s"], first["settled_per_s"]) == (1, 400.0, 1250.5)
    assert first["empty_s"] == second["empty_s"] == pytest.approx(1_234_567 / 850.5)
    assert (first["records"], second["records"], first["state"]) == (1_200_000, 34_567, "FLOWING")


def test_without_a_terminal_each_state_is_a_table_that_is_written_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    written: list[str] = []

    def states() -> Iterator[SinkStats]:
        for one in (FLOWING, replace(FLOWING, full=True)):
            yield one
            written.append(capsys.readouterr().out)

    show_states(states(), Output.TABLE, partitions=False, wide=False, paths=False)

    assert [[word for word in ("flowing", "full") if word in table] for table in written] == [["flowing"], ["full"]]
    assert [table.count("sink") for table in written] == [1, 1]
