"""Metrics of the saves of one consumer, through the OpenTelemetry API alone.

They are recorded at each save and each failed one, so an unreachable store is visible in them while it is retried.
"""

from __future__ import annotations

from opentelemetry import metrics
from opentelemetry.metrics import MeterProvider

from forebay.client.errors import ForebayError
from forebay.client.telemetry import SCOPE


class SaveTelemetry:
    """Instruments of one consumer."""

    def __init__(self, sink: str, consumer: str, *, meters: MeterProvider | None = None) -> None:
        """Use the given provider, or the global one."""
        self._attributes = {
            "messaging.system": "forebay",
            "messaging.destination.name": sink,
            "messaging.consumer.group.name": consumer,
        }
        meter = metrics.get_meter(SCOPE, meter_provider=meters)
        self._saves = meter.create_counter(
            "forebay.position.saves", unit="{save}", description="Saved positions of consumers"
        )
        self._failures = meter.create_counter(
            "forebay.position.save.failures", unit="{failure}", description="Failed saves of positions"
        )
        self._age = meter.create_gauge(
            "forebay.position.save.age",
            unit="s",
            description="Time since the last save of the partition that waits longest for one",
        )
        self._lag = meter.create_gauge(
            "forebay.position.lag", unit="{record}", description="Finished records above the saved positions"
        )

    def saved(self, age_s: float, lag: int) -> None:
        """Count a save; ``lag`` records were finished since it began.

        ``age_s`` is the time since the last save of the partition that has waited longest for one.
        """
        self._age.set(age_s, self._attributes)
        self._lag.set(lag, self._attributes)
        self._saves.add(1, self._attributes)

    def failed(self, error: ForebayError, age_s: float, lag: int) -> None:
        """Count a failed save; the numbers are those of ``saved``."""
        self._age.set(age_s, self._attributes)
        self._lag.set(lag, self._attributes)
        self._failures.add(1, {**self._attributes, "error.type": error.reason})
