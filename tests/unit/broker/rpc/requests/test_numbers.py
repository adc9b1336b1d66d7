"""Numbers of a request are held to their ranges; the contract tests go through every call."""

from __future__ import annotations

import pytest

from forebay.broker.rpc.requests.numbers import NUMBER_MAX, check_number, numbers_of
from forebay.broker.rpc.requests.reader import PUBLISH, reader_of
from forebay.client.publish.pages import EncodedPage, frame_publish_page
from forebay.errors.reasons import Reason
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import sink_service_pb2, subscription_pb2
from tests.support.refusals import refusal


def test_the_largest_allowed_numbers_are_accepted() -> None:
    request = subscription_pb2.SeekSubscriptionRequest(sink="orders", to=subscription_pb2.Position(offset=NUMBER_MAX))
    request.to.offsets.offsets[3] = NUMBER_MAX
    request.to.time.seconds = 253_402_300_799
    request.to.time.nanos = 999_999_999

    numbers_of(request.DESCRIPTOR).check(request)


def test_a_call_without_numbers_has_nothing_to_check() -> None:
    assert not numbers_of(sink_service_pb2.GetSinkRequest.DESCRIPTOR)


def test_a_number_is_named_by_its_path_and_reported_with_its_bounds() -> None:
    request = subscription_pb2.SeekSubscriptionRequest(to=subscription_pb2.Position(offset=NUMBER_MAX + 1))

    with refusal(Reason.NUMBER_OUT_OF_RANGE, match=r"to.offset is 9223372036854775808: 0 to 9223372036854775807"):
        numbers_of(request.DESCRIPTOR).check(request)


@pytest.mark.parametrize("size", [1, 10_000], ids=["small", "cut out"])
def test_the_sequence_of_a_page_is_held_to_its_range_in_either_form(size: int) -> None:
    read = reader_of(PUBLISH, pb.PublishRequest.FromString)

    with refusal(Reason.NUMBER_OUT_OF_RANGE, match=r"page\.sequence"):
        read(frame_publish_page(0, NUMBER_MAX + 1, EncodedPage(bytes(size), 1), ""))


def test_the_highest_number_is_allowed() -> None:
    check_number(NUMBER_MAX, "offset")
