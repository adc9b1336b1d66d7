"""Each record of a sink whose target rejects some ends once: that it does, and that it is noticed when it does not."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator

import pytest

from forebay.client import Client, Record
from forebay.client.testing import broker
from tests.support.campaigns import rejecting
from tests.support.oracles.records import identity, value_of

RECORDS = range(1, 31)


@pytest.fixture
def client() -> Iterator[Client]:
    with broker() as running, running.client() as client:
        rejecting.make(client)
        yield client


@pytest.fixture
def places(client: Client) -> Iterator[rejecting.Places]:
    """After thirty records were published, and a target that rejects some is at work."""
    places, stop, calm = rejecting.Places(), threading.Event(), threading.Event()
    records = [identity(1, number) for number in RECORDS]
    [receipt] = client.publish(rejecting.SINK, [Record(value_of(one, 10)) for one in records], partition=0)
    places.receipt(0, receipt.first_offset, records, receipt.durability)
    consumer = rejecting.RejectingConsumer(client.endpoints[0], places, random.Random(1), stop, calm)
    consumer.start()
    yield places
    stop.set()
    consumer.join(30)


def test_every_record_is_taken_once_after_as_many_redrives_as_it_needs(
    client: Client, places: rejecting.Places
) -> None:
    found = rejecting.finish(client, places)

    assert not places.violations, places.stories
    assert found["records"] == len(RECORDS)
    assert found["dead_letters"] == found["redriven"] >= len(RECORDS) // rejecting.EVERY


def test_a_record_that_is_stored_twice_is_a_violation(client: Client, places: rejecting.Places) -> None:
    client.publish(rejecting.SINK, [Record(value_of(identity(1, 1), 10))], partition=0)

    rejecting.finish(client, places)

    assert places.violations["duplicates"] == 1


def test_a_record_with_a_receipt_that_is_never_delivered_is_a_violation(
    client: Client, places: rejecting.Places
) -> None:
    places.receipt(1, 0, [identity(1, 99)])

    rejecting.finish(client, places)

    assert places.violations["lost"] >= 1
