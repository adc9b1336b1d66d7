"""The core's enumerations carry the numbers of the wire, so that translating one is a cast."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import pytest

from forebay.broker.core.delivery.lane import SettleOutcome
from forebay.broker.core.delivery.redelivery import State
from forebay.broker.core.partition.explanation import RecordPlace, RecordState, Wait
from forebay.broker.core.partition.pages import DropReason, Durability, Encoding
from forebay.broker.core.settings import BufferMode
from forebay.v1 import buffer_service_pb2, record_pb2, sink_pb2, sink_service_pb2


@pytest.mark.parametrize(
    ("core", "wire", "prefix"),
    [
        (Encoding, record_pb2.Encoding, "ENCODING_"),
        (Durability, record_pb2.Durability, "DURABILITY_"),
        (DropReason, record_pb2.DropReason, "DROP_REASON_"),
        (State, sink_service_pb2.DeliveryState, "DELIVERY_STATE_"),
        (BufferMode, sink_pb2.BufferMode, "BUFFER_MODE_"),
        (SettleOutcome, buffer_service_pb2.SettleOutcome, "SETTLE_OUTCOME_"),
        (RecordPlace, sink_service_pb2.RecordPlace, "RECORD_PLACE_"),
        (RecordState, sink_service_pb2.RecordState, "RECORD_STATE_"),
        (Wait, sink_service_pb2.WaitReason, "WAIT_REASON_"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_names_and_numbers_agree(core: type[IntEnum], wire: Any, prefix: str) -> None:
    named = {value.name.removeprefix(prefix): value.number for value in wire.DESCRIPTOR.values}

    assert {member.name: member.value for member in core} | {"UNSPECIFIED": 0} == named
