"""Open replays of a sink: positions, modes, and switches that outlive them."""

from __future__ import annotations

from forebay.broker.runtime.read.readers import Readers


def test_a_replay_without_a_position_is_open_and_has_no_lag_yet() -> None:
    readers = Readers(lambda: 0.0)
    with readers.opened(3, "billing") as reader:
        assert (len(readers), readers.of(3)) == (1, [])
        reader.position = 0

        assert readers.of(3) == [(reader, 0)]
        assert readers.of(0) == []
    assert (len(readers), readers.of(3)) == (0, [])


def test_a_switch_is_counted_and_begins_the_time_in_its_mode() -> None:
    now = [0.0]
    with Readers(lambda: now[0]).opened(0, "") as reader:
        assert (reader.realtime, reader.mode_s) == (None, 0.0)
        now[0] = 5.0
        reader.read_from(realtime=True)
        now[0] = 7.0
        reader.read_from(realtime=True)
        assert (reader.switches, reader.mode_s) == (0, 2.0)

        reader.read_from(realtime=False)

        assert (reader.switches, reader.realtime, reader.mode_s) == (1, False, 0.0)


def test_switches_of_ended_replays_stay_in_the_count_of_their_partition() -> None:
    readers = Readers(lambda: 0.0)
    for _ in range(2):
        with readers.opened(1, "") as reader:
            reader.read_from(realtime=True)
            reader.read_from(realtime=False)

    with readers.opened(1, "") as reader:
        reader.read_from(realtime=False)
        reader.read_from(realtime=True)
        assert (readers.switches(1), readers.switches(0)) == (3, 0)
