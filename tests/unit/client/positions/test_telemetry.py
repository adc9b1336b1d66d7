"""Metrics of saves; what the saver records is in test_saver.py."""

from __future__ import annotations

from forebay.client.errors import PositionStoreUnavailable
from forebay.client.positions.telemetry import SaveTelemetry
from tests.support.telemetry.observed import Observed


def test_the_series_of_a_consumer_do_not_grow_with_its_saves() -> None:
    seen = Observed()
    telemetry = SaveTelemetry("orders", "billing", meters=seen.meters)

    for number in range(50):
        telemetry.saved(0.0, number)
        telemetry.failed(PositionStoreUnavailable("away"), 1.0, number)

    assert {name: len(points) for name, points in seen.metrics().items()} == {
        "forebay.position.saves": 1,
        "forebay.position.save.failures": 1,
        "forebay.position.save.age": 1,
        "forebay.position.lag": 1,
    }
