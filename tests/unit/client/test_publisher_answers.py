"""A publisher and the answers of many pages in one message."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import grpc
import pytest

from forebay.client import Receipt
from forebay.client.publish.pages import encode_columns
from forebay.client.publish.sized_columns import HELD_BYTES
from forebay.v1 import buffer_service_pb2 as pb
from tests.support.calls.wire_fake import Log, WireFake, status

Requests = Iterator[pb.PublishRequest]
Responses = Iterator[pb.PublishResponse]
PAGES = 12


class InOne:
    """Answers so many pages in one message, and later ones by themselves. Asks whether that is understood."""

    def __init__(self, pages: int, *, after: Sequence[pb.PublishAnswer] = ()) -> None:
        self.log = Log(partitions=2)
        self.understood: list[bool] = []
        self._pages = pages
        self._after = after
        """State of the broker after the answers of the first stream."""

    def publish(self, requests: Requests, context: grpc.ServicerContext) -> Responses:
        """Serve `Publish`."""
        opening = next(requests).open
        self.understood.append(opening.answers_together)
        opened = self.log.opened(opening)
        yield pb.PublishResponse(opened=opened)
        held: list[pb.PublishAnswer] = []
        for request in requests:
            if request.HasField("close"):
                return
            answer = self.log.answered(opened.writer_epoch, request.page)
            if len(self.understood) > 1 or len(held) >= self._pages:
                yield pb.PublishResponse(answer=answer)
                continue
            held.append(answer)
            if len(held) == self._pages:
                yield pb.PublishResponse(answers=pb.PublishAnswers(answers=[*held, *self._after]))


def offsets(receipts: Sequence[Receipt]) -> list[tuple[int, int | None]]:
    return [(receipt.partition, receipt.first_offset) for receipt in receipts]


def test_each_page_gets_its_own_answer_out_of_one_message() -> None:
    served = InOne(PAGES)
    with (
        WireFake(Publish=served.publish) as fake,
        fake.client() as client,
        client.publisher("s", page_records=1) as publisher,
    ):
        futures = [publisher.send(b"%d" % number, partition=number % 2) for number in range(PAGES)]
        publisher.flush(10)
        after = publisher.send(b"after", partition=0).result(10)

    assert served.understood == [True]
    assert offsets([future.result(0) for future in futures]) == [(n % 2, n // 2) for n in range(PAGES)]
    assert after.first_offset == PAGES // 2


def test_a_refusal_among_the_answers_fails_its_own_page_and_the_pages_after_it_are_stored_once() -> None:
    served = InOne(PAGES)
    full = status(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_PAGE", field="body")
    served.log.refuse = lambda page: full if b"4" in page.body else None
    with WireFake(Publish=served.publish) as fake, fake.client() as client:
        publisher = client.publisher("s", page_records=1)
        futures = [publisher.send(b"%d" % number, partition=0) for number in range(6)]
        others = [publisher.send(b"x", partition=1) for number in range(6)]
        errors = [type(future.exception(10)).__name__ for future in futures]
        publisher.abandon()

    assert errors == ["NoneType"] * 4 + ["InvalidPage"] + ["NoneType"]
    assert [other.exception(10) for other in others] == [None] * 6
    assert served.log.values(0) == [b"0", b"1", b"2", b"3", b"5"]


def test_an_answer_that_cannot_be_does_not_take_the_answers_before_it_away() -> None:
    unknown = pb.PublishAnswer(partition=1, sequence=99)
    unknown.receipt.partition = 1
    served = InOne(3, after=[unknown])
    with WireFake(Publish=served.publish) as fake, fake.client() as client:
        publisher = client.publisher("s", page_records=1)
        futures = [publisher.send(b"%d" % number, partition=0) for number in range(3)]
        receipts = [future.result(10) for future in futures]
        publisher.abandon()

    assert offsets(receipts) == [(0, 0), (0, 1), (0, 2)]
    assert served.log.values(0) == [b"0", b"1", b"2"]


def test_every_page_releases_its_bytes_before_the_next_one_of_the_message_is_answered() -> None:
    served = InOne(4)
    with (
        WireFake(Publish=served.publish) as fake,
        fake.client() as client,
        client.publisher("s", page_records=1, buffer_bytes_max=5_000) as publisher,
    ):
        held: list[int] = []
        futures = [publisher.send(b"x" * 1_000, partition=0) for _ in range(3)]
        for future in futures:
            future.add_done_callback(lambda _: held.append(publisher._buffer.taken_bytes))
        publisher.send(b"x" * 1_000, partition=0)
        publisher.flush(10)

    assert held == [records * (1_000 + HELD_BYTES) for records in (4, 3, 2)]


def test_a_fault_while_one_page_is_completed_keeps_no_other_page_open_and_the_next_stream_continues(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    served = InOne(4)
    with WireFake(Publish=served.publish) as fake, fake.client() as client, client.publisher("s") as publisher:
        told, count = publisher._buffer.telemetry.sent, itertools.count()

        def broken(*ended: Any) -> None:
            if next(count) == 1:
                raise ZeroDivisionError("an exporter of the user's")
            told(*ended)

        monkeypatch.setattr(publisher._buffer.telemetry, "sent", broken)
        pages = [publisher.send_page(encode_columns([b"x"]), partition=0) for _ in range(4)]
        receipts = [page.result(10) for page in pages]
        receipts.append(publisher.send(b"y", partition=0).result(10))

    assert [receipt.first_offset for receipt in receipts] == [0, 1, 2, 3, 4]
    assert "thread=forebay-answers-s error=ZeroDivisionError" in caplog.text
    assert len(served.understood) == 2
