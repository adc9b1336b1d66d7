"""The list of needs is ordered by urgency, each in a sentence with its command."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forebay.broker.console.figures import BrokerFigures, SinkFigures
from forebay.broker.console.history import Rates
from forebay.state.attention import Severity, needs

BROKER = BrokerFigures(
    state="serving",
    state_reason="",
    endpoint="127.0.0.1:7461",
    version="0",
    up_s=1.0,
    sinks=1,
    sinks_max=10,
    streams=0,
    connections=0,
    disk_free=10 << 30,
    disk_reserve=1 << 30,
    memory_used=1 << 30,
    memory_limit=4 << 30,
    memory_watermark=0.8,
    sync_p50_s=None,
    sync_p99_s=None,
    quarantined_pages=0,
    warnings=(),
    journal_outage="",
    journal_outage_cause="",
    shard=None,
)
SINK = SinkFigures(
    name="orders",
    state="flowing",
    waiting=1_200,
    waiting_bytes=120_000,
    records=1_200,
    subscription="default",
    consumers=1,
    share=0.0,
    rates=Rates(),
    reason="",
    retry_in_s=None,
    dead_letters=0,
)


def sentences(broker: BrokerFigures = BROKER, *sinks: SinkFigures) -> list[str]:
    return [need.sentence for need in needs(broker, sinks)]


def test_a_broker_whose_sinks_flow_needs_nothing() -> None:
    assert needs(BROKER, [SINK]) == []


@pytest.mark.parametrize(
    ("change", "severity", "sentence"),
    [
        ({"state": "full"}, Severity.CRITICAL, "orders is full: new records are refused, or drop old ones."),
        (
            {"state": "backing off", "reason": "503 Service Unavailable", "retry_in_s": 95.0},
            Severity.WARNING,
            "orders: 1,200 records wait for 'default', whose target fails: 503 Service Unavailable. The next try is in"
            " 1 min 35 s.",
        ),
        (
            {"state": "paused", "reason": "maintenance"},
            Severity.NOTICE,
            "orders: 1,200 records wait for 'default', which is paused: maintenance.",
        ),
        (
            {"state": "no consumer"},
            Severity.WARNING,
            "orders: 1,200 records wait for 'default', and no consumer is connected.",
        ),
        ({"dead_letters": 3}, Severity.NOTICE, "orders has 3 dead letters."),
        (
            {"share": 0.5, "rates": Rates(into=10.0, cleared=8.0)},
            Severity.WARNING,
            "orders will be full in 10 min at the present rates; 50% of its limit is used.",
        ),
    ],
)
def test_each_state_of_a_sink_has_its_sentence(change: dict[str, object], severity: Severity, sentence: str) -> None:
    [need] = needs(BROKER, [replace(SINK, **change)])  # type: ignore[arg-type]

    assert (need.severity, need.subject, need.sentence) == (severity, "orders", sentence)
    assert need.command.startswith("forebay ")


def test_a_sink_that_grows_slowly_and_has_room_is_not_reported() -> None:
    assert needs(BROKER, [replace(SINK, share=0.1, rates=Rates(into=0.1))]) == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"state": "fenced", "state_reason": "EIO"}, "The broker is fenced: EIO."),
        ({"disk_free": 1 << 20}, "Appends are refused: 1.0 MiB of the disk are free, 1.0 GiB are reserved."),
        ({"memory_used": 3.9 * (1 << 30)}, "Memory is above the high watermark: 3.9 GiB of 4.0 GiB are used."),
        (
            {"journal_outage": "JOURNAL_AWAY", "journal_outage_cause": "it timed out"},
            "Appends and acks wait: the journal does not answer (JOURNAL_AWAY): it timed out.",
        ),
        (
            {"journal_outage": "JOURNAL_FULL", "journal_outage_cause": "no space"},
            "Appends are refused: the journal is full (JOURNAL_FULL): no space.",
        ),
        ({"quarantined_pages": 2}, "2 damaged pages are in quarantine."),
        ({"warnings": ("the certificate ends in 3 days.",)}, "the certificate ends in 3 days."),
    ],
)
def test_each_trouble_of_the_broker_has_its_sentence(change: dict[str, object], sentence: str) -> None:
    assert sentences(replace(BROKER, **change)) == [sentence]  # type: ignore[arg-type]


def test_refused_records_come_before_waiting_ones_and_many_before_few() -> None:
    found = needs(
        BROKER,
        [
            replace(SINK, name="a", state="no consumer", waiting=1),
            replace(SINK, name="b", state="paused", waiting=10**9),
            replace(SINK, name="c", state="no consumer", waiting=500),
            replace(SINK, name="d", state="full", waiting=1),
        ],
    )

    assert [need.subject for need in found] == ["d", "c", "a", "b"]


def test_times_follow_from_the_rates() -> None:
    shrinking = replace(SINK, share=0.5, rates=Rates(into=2.0, out=12.0, cleared=12.0))

    assert shrinking.empty_in_s == 120.0
    assert shrinking.full_in_s is None
    assert replace(SINK, share=0.25, rates=Rates(into=4.0)).full_in_s == 900.0
    assert replace(SINK, share=0.25, rates=Rates(into=4.0)).empty_in_s is None


def test_records_that_expire_make_room_and_are_not_delivered() -> None:
    expiring = replace(SINK, share=0.5, rates=Rates(into=2.0, cleared=12.0))

    assert (expiring.full_in_s, expiring.empty_in_s) == (None, None)


def test_dead_letters_that_wait_need_no_consumer() -> None:
    letters = replace(SINK, name="orders.dlq", state="no consumer", consumers=0)

    assert needs(BROKER, [letters]) == []
