"""Answers to pages: one by one, or in one message for those that became durable together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.broker.rpc.buffer import publish_stream
from forebay.client import Client, ForebayError
from forebay.client.publish.pages import encode_columns
from forebay.v1 import buffer_service_pb2 as pb
from tests.support.brokers.held_store import HeldStore
from tests.support.calls.eventually import until
from tests.support.calls.streams import PublishCall

PAGES = 9


@contextmanager
def held(store: HeldStore, *, together: bool, first: bytes) -> Iterator[tuple[PublishCall, Callable[[int], None]]]:
    """A stream whose first page waits in its sync; and what returns when so many bytes wait, that page's included."""
    with BrokerServer.in_memory(store) as server, Client(server.endpoint) as client:
        client.sinks.create("orders")
        with PublishCall(server.endpoint, "orders", "writer", together=together) as call:
            store.hold()
            call.send(0, [first])
            store.wait_reached()
            assert server.serving is not None
            committer = server.serving.broker.committer
            yield call, lambda size: until(lambda: committer.waiting_bytes == size)


def answered(*, together: bool) -> list[pb.PublishResponse]:
    """Return what the broker says to a page, and then to nine that wait for one sync, the fifth of them refused."""
    store = HeldStore()
    with held(store, together=together, first=b"first") as (call, wait_for):
        for number in range(1, PAGES + 1):
            call.send(number if number < 5 else number - 1, [b"%d" % number], partition=7 if number == 5 else 0)
        wait_for(size_of(b"first") + (PAGES - 1) * size_of(b"1"))
        store.let_go()
        return taken(call, 1 + PAGES)


def size_of(value: bytes) -> int:
    return len(encode_columns([value]).body)


def count(response: pb.PublishResponse) -> int:
    return len(response.answers.answers) if response.HasField("answers") else 1


def meaning(answer: pb.PublishAnswer) -> tuple[int, int, int | None]:
    stored = answer.HasField("receipt")
    return answer.partition, answer.sequence, answer.receipt.first_offset if stored else None


def taken(call: PublishCall, pages: int) -> list[pb.PublishResponse]:
    """Return responses until they answer so many pages."""
    responses: list[pb.PublishResponse] = []
    while sum(map(count, responses)) < pages:
        responses.append(call.take())
    return responses


EXPECTED = [(0, 0, 0), *((0, n, n) for n in range(1, 5)), (7, 4, None), *((0, n, n) for n in range(5, PAGES))]


def test_a_publisher_that_understands_it_gets_the_answers_of_a_sync_in_one_message_in_the_order_of_its_pages() -> None:
    first, *rest = answered(together=True)

    assert first.WhichOneof("response") == "answer"
    assert [response.WhichOneof("response") for response in rest] == ["answers"]
    assert [meaning(first.answer), *map(meaning, rest[0].answers.answers)] == EXPECTED


def test_any_other_publisher_gets_a_message_for_each() -> None:
    responses = answered(together=False)

    assert {response.WhichOneof("response") for response in responses} == {"answer"}
    assert [meaning(response.answer) for response in responses] == EXPECTED


def test_a_message_has_no_more_answers_than_the_contract_says(monkeypatch: pytest.MonkeyPatch) -> None:
    assert publish_stream.ANSWERS_MAX == 256
    monkeypatch.setattr(publish_stream, "ANSWERS_MAX", 4)

    _, *rest = answered(together=True)

    assert list(map(count, rest)) == [4, 4, 1]


@pytest.mark.parametrize("together", [False, True])
def test_a_stream_continues_when_more_came_than_may_wait_for_answers(
    monkeypatch: pytest.MonkeyPatch, together: bool
) -> None:
    monkeypatch.setattr(publish_stream, "IN_FLIGHT_BYTES_MAX", 3_000)
    with BrokerServer.in_memory() as server, Client(server.endpoint) as client:
        client.sinks.create("orders")
        with PublishCall(server.endpoint, "orders", "writer", together=together) as call:
            for number in range(40):
                call.send(number, [b"x" * 1_000])

            assert sum(map(count, taken(call, 40))) == 40


class FailingLater(HeldStore):
    """Syncs once more after ``fails_after_next`` is set, and never again."""

    fails_after_next = False

    def sync(self) -> None:
        """Sync, or fail on purpose."""
        super().sync()
        if self.fails_after_next:
            self.fails_after_next = False
            self.fail_next("sync")


def test_an_append_that_became_durable_before_the_store_failed_is_answered_before_the_stream_ends() -> None:
    store = FailingLater()
    with held(store, together=True, first=b"stored") as (call, wait_for):
        call.send(1, [b"lost"])
        wait_for(size_of(b"stored") + size_of(b"lost"))
        store.fails_after_next = True
        store.let_go()

        assert meaning(call.take().answer) == (0, 0, 0)
        with pytest.raises(ForebayError) as ended:
            call.take()
        assert ended.value.reason == "STORE_FENCED"
