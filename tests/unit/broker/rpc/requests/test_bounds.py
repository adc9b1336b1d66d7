"""The table of bounds: every row is of a call and of fields that exist, and a call without a row has tight ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from google.protobuf import descriptor_pool

from forebay.broker.rpc.requests.bounds import BOUNDS, FOREIGN, MESSAGE_BYTES_MAX, QUESTION, Bounds, bounds_of
from forebay.broker.rpc.requests.shapes import Shape, shape_of
from forebay.broker.server import MESSAGE_BYTES_MAX as TRANSPORT_BYTES_MAX


def paths(shape: Shape) -> Iterator[str]:
    """Every counted path of a request."""
    for place in shape.places.values():
        yield place.path
        if place.inside is not None:
            yield from paths(place.inside)


@pytest.mark.parametrize("method", BOUNDS)
def test_a_row_names_a_call_and_fields_that_it_has(method: str) -> None:
    name = method.lstrip("/").replace("/", ".")

    request = descriptor_pool.Default().FindMethodByName(name).input_type

    assert set(BOUNDS[method].counts) <= set(paths(shape_of(request)))


def test_a_call_without_a_row_has_the_bounds_of_a_question() -> None:
    assert bounds_of("/forebay.v1.SinkService/GetSink") == QUESTION
    assert bounds_of("/forebay.v1.SinkService/AddedLater") == QUESTION
    assert QUESTION.bytes_max <= 64 << 10


def test_health_and_reflection_have_bounds_of_their_own() -> None:
    assert bounds_of("/grpc.health.v1.Health/Check") == FOREIGN


def test_no_call_takes_more_than_the_transport() -> None:
    assert MESSAGE_BYTES_MAX == TRANSPORT_BYTES_MAX
    assert all(bounds.bytes_max <= MESSAGE_BYTES_MAX for bounds in BOUNDS.values())


def test_a_request_that_is_not_counted_is_too_short_to_hold_too_much() -> None:
    bounds = Bounds(elements_max=1_000, counts={"records": 10})

    assert bounds.harmless_bytes == 20
