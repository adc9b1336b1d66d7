"""Acks and nacks on their way."""

from __future__ import annotations

from forebay.client import SettleOutcome, SettleResult
from forebay.client.consume.answers import Answer, AnswerKind, Answers
from forebay.client.values.ranges import Range
from forebay.v1 import buffer_service_pb2 as pb

OK = [SettleResult(0, 0, 0, SettleOutcome.OK)]


def ack(*ranges: Range, partition: int = 0, revision: int = 1, is_awaited: bool = False) -> Answer:
    return Answer(AnswerKind.ACK, partition, 7, revision, list(ranges), is_awaited=is_awaited)


def sent(answers: Answers) -> list[list[Range]]:
    found = []
    while (message := answers.take()) is not None:
        found.append([(one.first_offset, one.last_offset) for one in message.ack.ranges])
    return found


def test_acks_one_after_the_other_become_one_message() -> None:
    answers = Answers()
    for offset in range(5):
        answers.put(ack((offset, offset)))
    answers.put(ack((10, 11)))

    assert sent(answers) == [[(0, 4), (10, 11)]]


def test_acks_gather_after_one_without_results_where_there_is_no_hurry() -> None:
    answers = Answers()
    answers.put(ack((0, 0)))
    first = answers.take(gather=True)
    answers.put(ack((1, 1)))
    answers.put(ack((2, 2)))
    held = answers.take(gather=True)
    answers.resolved(OK)
    then = answers.take(gather=True)

    assert first is not None
    assert held is None
    assert then is not None
    assert [(one.first_offset, one.last_offset) for one in then.ack.ranges] == [(1, 2)]


def test_nothing_gathers_after_an_awaited_answer_or_a_nack() -> None:
    answers = Answers()
    answers.put(ack((0, 0)))
    answers.take()
    answers.put(ack((1, 1), is_awaited=True))
    answers.put(Answer(AnswerKind.NACK, 0, 7, 1, [(2, 2)]))

    assert answers.take(gather=True) is not None
    assert answers.take(gather=True) is not None


def test_an_awaited_ack_is_sent_alone() -> None:
    answers = Answers()
    answers.put(ack((0, 0)))
    answers.put(ack((1, 1), is_awaited=True))
    answers.put(ack((2, 2)))

    assert sent(answers) == [[(0, 0)], [(1, 1)], [(2, 2)]]


def test_acks_of_different_partitions_or_revisions_stay_apart() -> None:
    answers = Answers()
    for answer in (ack((0, 0)), ack((1, 1), partition=1), ack((2, 2), revision=2), ack((1, 1))):
        answers.put(answer)

    assert len(sent(answers)) == 4


def test_a_nack_is_not_overtaken_by_an_ack() -> None:
    answers = Answers()
    answers.put(ack((0, 0)))
    answers.put(Answer(AnswerKind.NACK, 0, 7, 1, [(1, 1)]))
    answers.put(ack((2, 2)))

    kinds = []
    while (message := answers.take()) is not None:
        kinds.append(message.WhichOneof("request"))
    assert kinds == ["ack", "nack", "ack"]


def test_results_belong_to_the_oldest_answer_and_messages_without_results_are_skipped() -> None:
    answers = Answers()
    first, second = ack((0, 0), is_awaited=True), ack((1, 1), is_awaited=True)
    answers.put(first)
    answers.put_message(pb.DeliverRequest(extend=pb.Extend(partition=0)))
    answers.put(second)
    sent(answers)

    assert answers.resolved(OK) is first
    assert answers.resolved([]) is second
    assert first.results == OK
    assert answers.resolved(OK) is None
    assert answers.is_idle()


def test_unanswered_acks_are_stale_when_the_stream_breaks() -> None:
    answers = Answers()
    answers.put(ack((0, 0), is_awaited=True))
    answers.take()
    answers.put(ack((1, 3), is_awaited=True))

    void = answers.disconnected()

    assert [answer.results for answer in void] == [
        [SettleResult(0, 0, 0, SettleOutcome.STALE)],
        [SettleResult(0, 1, 3, SettleOutcome.STALE)],
    ]
    assert answers.is_idle()


def test_messages_say_what_was_meant() -> None:
    until = Answer(AnswerKind.ACK_UNTIL, 1, 7, 2, [(0, 9)]).message().ack
    later = Answer(AnswerKind.NACK, 1, 7, 2, [(4, 5)], delay_s=1.5, reason="x" * 2000).message().nack
    soon = Answer(AnswerKind.NACK, 1, 7, 2, [(4, 5)]).message().nack
    gone = Answer(AnswerKind.DROP, 1, 7, 2, [(4, 4)], reason="y" * 2000).message().nack
    never = Answer(AnswerKind.DEAD_LETTER, 1, 7, 2, [(4, 4)], reason="no").message().nack

    assert (until.until, until.partition, until.owner_epoch, until.revision) == (True, 1, 7, 2)
    assert (later.retry.delay.seconds, later.retry.delay.nanos, len(later.retry.reason)) == (1, 500_000_000, 1024)
    assert soon.WhichOneof("action") == "retry"
    assert not soon.retry.HasField("delay")
    assert never.dead_letter.reason == "no"
    assert gone.WhichOneof("action") == "drop"
    assert gone.drop.reason == "y" * 1024


def test_equal_nacks_of_single_ranges_become_one_message() -> None:
    answers = Answers()
    for offset, reason, is_selective in ((1, "503", True), (3, "503", True), (5, "504", True), (7, "504", False)):
        answers.put(Answer(AnswerKind.NACK, 0, 7, 1, [(offset, offset)], reason=reason, is_selective=is_selective))

    found = []
    while (message := answers.take()) is not None:
        found.append([one.first_offset for one in message.nack.ranges])
    assert found == [[1, 3], [5], [7]]
