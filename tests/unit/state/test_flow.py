"""State of the flow, from the statistics of the client and of the broker."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import pytest

from forebay.broker.core.delivery.redelivery import State
from forebay.client.values.sinks import DeliveryState
from forebay.state.flow import Flow, of_sink, of_subscription, seconds_to_empty, seconds_to_full
from forebay.v1 import sink_service_pb2 as pb


@dataclass(frozen=True)
class Lane:
    state: Enum = DeliveryState.FLOWING
    pending: int = 0
    parked_records: int = 0
    live_stopped: bool = False


def test_records_that_wait_without_a_consumer_do_not_flow() -> None:
    lanes = [Lane(), Lane(pending=3)]

    assert of_subscription(lanes, consumers=0) is Flow.NO_CONSUMER
    assert of_subscription(lanes, consumers=1) is Flow.FLOWING


def test_a_reader_that_settles_without_being_connected_makes_records_flow() -> None:
    assert of_subscription([Lane(pending=3)], consumers=0, settled_per_s=0.5) is Flow.FLOWING


def test_a_subscription_without_waiting_records_is_idle_with_or_without_a_consumer() -> None:
    assert of_subscription([Lane()], consumers=0) is Flow.IDLE
    assert of_subscription([Lane()], consumers=2) is Flow.IDLE
    assert of_subscription([Lane()], consumers=2, settled_per_s=1) is Flow.FLOWING


@pytest.mark.parametrize("state", [DeliveryState.BACKING_OFF, DeliveryState.PROBING, State.BACKING_OFF, State.PROBING])
def test_a_failed_delivery_backs_off_until_a_probe_succeeds(state: Enum) -> None:
    assert of_subscription([Lane(pending=1), Lane(state, pending=1)], consumers=1) is Flow.BACKING_OFF


def test_a_resent_backlog_flows() -> None:
    assert of_subscription([Lane(DeliveryState.RESENDING, pending=9)], consumers=1) is Flow.FLOWING


def test_a_retry_queue_beside_new_records_holds_nothing_else_back() -> None:
    beside = Lane(DeliveryState.BACKING_OFF, pending=10, parked_records=4)
    alone = Lane(DeliveryState.BACKING_OFF, pending=4, parked_records=4)
    stopped = Lane(DeliveryState.BACKING_OFF, pending=10, parked_records=4, live_stopped=True)

    assert of_subscription([beside], consumers=1) is Flow.FLOWING
    assert of_subscription([alone], consumers=1) is Flow.BACKING_OFF
    assert of_subscription([stopped], consumers=1) is Flow.BACKING_OFF


def test_a_pause_is_said_before_a_failure_and_a_missing_consumer() -> None:
    lanes = [Lane(DeliveryState.BACKING_OFF, pending=1), Lane(State.PAUSED)]

    assert of_subscription(lanes, consumers=0) is Flow.PAUSED


def test_a_sink_has_the_state_of_the_subscription_that_needs_attention_first() -> None:
    assert of_sink([Flow.FLOWING, Flow.NO_CONSUMER, Flow.IDLE]) is Flow.NO_CONSUMER
    assert of_sink([Flow.BACKING_OFF, Flow.PAUSED]) is Flow.PAUSED
    assert of_sink([Flow.FLOWING], full=True) is Flow.FULL
    assert of_sink([]) is Flow.IDLE


def test_only_what_flows_or_has_nothing_to_do_needs_no_attention() -> None:
    assert {flow for flow in Flow if not flow.needs_attention} == {Flow.IDLE, Flow.FLOWING}


def test_the_time_to_empty_counts_what_comes_in_meanwhile() -> None:
    assert seconds_to_empty(100, in_per_s=5, out_per_s=15) == 10
    assert seconds_to_empty(0, in_per_s=9, out_per_s=0) == 0
    assert seconds_to_empty(1, in_per_s=5, out_per_s=5) is None


def test_broker_client_and_wire_name_the_states_of_redelivery_alike() -> None:
    wire = {name.removeprefix("DELIVERY_STATE_") for name, _ in pb.DeliveryState.items()}

    assert {state.name for state in DeliveryState} == wire
    assert {state.name for state in State} == wire - {"UNSPECIFIED"}


@pytest.mark.parametrize(
    ("records", "share", "in_per_s", "out_per_s", "expected"),
    [(100, 0.25, 4.0, 0.0, 75.0), (100, 0.25, 4.0, 4.0, None), (0, 0.25, 4.0, 0.0, None), (100, 1.0, 4.0, 0.0, None)],
)
def test_the_time_to_a_full_limit_follows_from_the_growth(
    records: int, share: float, in_per_s: float, out_per_s: float, expected: float | None
) -> None:
    assert seconds_to_full(records, share, in_per_s=in_per_s, out_per_s=out_per_s) == expected
