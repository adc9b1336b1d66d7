"""Gauges: what they keep of a broker."""

from __future__ import annotations

import weakref
from typing import Any

from opentelemetry.metrics import NoOpMeterProvider

from forebay.broker.telemetry.gauges import Gauges


class Thing:
    """Represents a broker and its connections."""


def test_closed_gauges_let_the_broker_go() -> None:
    gauges = Gauges(NoOpMeterProvider().get_meter("test"))
    thing: Any = Thing()
    known = weakref.ref(thing)
    gauges.watch(thing)
    gauges.watch_connections(thing)
    del thing
    assert known() is not None

    gauges.close()

    assert known() is None
