"""The monitor only reads and never fails: an unreachable broker is a state like any other."""

from __future__ import annotations

from forebay.cli.demo.processes.children import Report
from forebay.cli.demo.report.monitor import Monitor, Tally, accounts
from forebay.client import testing


def test_a_broker_that_is_unreachable_is_shown_with_what_was_known_last() -> None:
    with testing.broker() as broker:
        with broker.client() as client:
            client.sinks.create("demo", partitions=2)
            with client.publisher("demo") as publisher:
                publisher.send_many([b"a", b"b", b"c"], partition=1).result()
        monitor = Monitor(broker.endpoint, "demo", lambda: 1)
        there = monitor.sample(0.0, produced=5, target_up=True)
        stats = monitor.stats()
    with monitor:
        gone = monitor.sample(1.0, produced=5, target_up=False)

    assert (there.published, there.buffered, there.broker_up) == (3, 2, True)
    assert (gone.published, gone.buffered, gone.broker_up) == (3, 2, False)
    assert stats is not None
    assert [(one.partition, one.next_offset, one.pending, one.balances) for one in accounts(stats)] == [
        (0, 0, 0, True),
        (1, 3, 3, True),
    ]


def test_reports_of_children_are_kept_until_newer_ones_replace_them() -> None:
    tally = Tally()

    for facts in ({"produced": 3}, {"restarts": 1, "because": "x"}, {"rows": 3, "batches": 2}, {"produced": 9}):
        tally.apply(Report("any", facts))

    assert (tally.produced, tally.spark_restarts, tally.batches) == (9, 1, 2)
