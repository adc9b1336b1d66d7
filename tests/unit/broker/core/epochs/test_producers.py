from __future__ import annotations

from dataclasses import replace

import pytest

from forebay.broker.core.epochs import producers as remembered
from forebay.broker.core.epochs.producers import Producers
from forebay.broker.core.epochs.values import Claim, Content, EpochCheck, ProducerRecord, StageRecord, Wanted, digest
from forebay.broker.core.errors import (
    EpochContentConflict,
)
from forebay.errors.reasons import Reason
from tests.support.refusals import refusal

CLAIM = Claim("orders", "query", "orders", 0, "run-1", 1)
NEWER = replace(CLAIM, run="run-2", ticket=2)
OTHER = Claim("orders", "other", "orders", 0, "run-9", 9)
TEN = Content(10, "kind:aa")


def wanted(
    claim: Claim, *tokens: str, content: Content | None = None, check: EpochCheck = EpochCheck.RECORDS
) -> Wanted:
    return Wanted(claim, tuple((token, ()) for token in tokens), content, check)


def commit(
    producers: Producers, claim: Claim, *tokens: str, at_us: int = 1, now_us: int = 1, content: Content = TEN
) -> None:
    """``at_us`` is on the wall clock, ``now_us`` on the broker's own."""
    assert producers.commit(wanted(claim, *tokens, content=content))
    producers.keep(producers.committed(claim, tokens, at_us, content), now_us)


def stage_of(claim: Claim, number: int = 7) -> StageRecord:
    return StageRecord(number, claim.producer, claim.write_name, claim.epoch, "token", claim.run, claim.ticket)


def restarted(producers: Producers, *stages: StageRecord) -> Producers:
    """As a start finds them: in any order."""
    again = Producers(producers.sink)
    again.restore(sorted(producers.known.values(), key=lambda record: record.producer, reverse=True), 1)
    for stage in stages:
        again.saw(stage)
    return again


def test_a_producer_that_is_unknown_may_stage_and_commit() -> None:
    producers = Producers("orders")

    assert not producers.stage(CLAIM)
    assert producers.commit(wanted(CLAIM, "a"))


def test_the_first_stage_of_a_newer_run_says_so_once() -> None:
    producers = Producers("orders")
    producers.stage(CLAIM)

    assert producers.stage(NEWER)
    assert not producers.stage(NEWER)


def test_an_older_run_may_neither_stage_nor_commit() -> None:
    producers = Producers("orders")
    producers.stage(NEWER)

    for ask in (producers.stage, lambda claim: producers.commit(wanted(claim))):
        with refusal(Reason.EPOCH_FENCED, match="newer run"):
            ask(CLAIM)


def test_a_run_is_as_new_as_its_highest_ticket() -> None:
    producers = Producers("orders")
    producers.stage(replace(CLAIM, ticket=5))
    producers.stage(replace(CLAIM, ticket=3))

    assert producers.known["query"].ticket == 5
    with refusal(Reason.EPOCH_FENCED):
        producers.stage(replace(CLAIM, run="run-2", ticket=4))


def test_nothing_is_staged_for_an_epoch_that_is_committed_nor_below_it() -> None:
    producers = Producers("orders")
    commit(producers, replace(CLAIM, epoch=3), "a")

    with refusal(Reason.ALREADY_COMMITTED):
        producers.stage(replace(CLAIM, epoch=3))
    with refusal(Reason.EPOCH_FENCED, match="epoch 3 was committed"):
        producers.stage(replace(CLAIM, epoch=2))
    assert not producers.stage(replace(CLAIM, epoch=9))


@pytest.mark.parametrize(("tokens", "claim"), [(["b", "a"], CLAIM), (["c"], NEWER)])
def test_an_epoch_is_committed_once(tokens: list[str], claim: Claim) -> None:
    producers = Producers("orders")
    commit(producers, CLAIM, "a", "b")

    assert not producers.commit(wanted(claim, *tokens))


def test_the_run_that_committed_an_epoch_cannot_commit_it_with_other_tokens() -> None:
    producers = Producers("orders")
    commit(producers, CLAIM, "a")

    with refusal(Reason.EPOCH_CONFLICT):
        producers.commit(wanted(CLAIM, "b"))


def test_a_repeat_with_another_number_of_records_is_refused_with_both_numbers() -> None:
    producers = Producers("orders")
    commit(producers, CLAIM, "a")

    for check in (EpochCheck.RECORDS, EpochCheck.CONTENT):
        with pytest.raises(EpochContentConflict) as error:
            restarted(producers).commit(wanted(NEWER, "b", content=Content(12, TEN.digest), check=check))
        assert (error.value.facts["stored_records"], error.value.facts["sent_records"]) == ("10", "12")


def test_a_repeat_with_another_digest_is_refused_where_the_content_is_to_be_compared() -> None:
    producers = Producers("orders")
    commit(producers, CLAIM, "a")
    others = Content(10, "kind:bb")

    assert not producers.commit(wanted(NEWER, "b", content=others))
    with pytest.raises(EpochContentConflict, match="kind:aa"):
        producers.commit(wanted(NEWER, "b", content=others, check=EpochCheck.CONTENT))


@pytest.mark.parametrize("content", [None, Content(99, "kind:bb")])
def test_a_repeat_that_asks_for_no_comparison_is_answered_as_committed(content: Content | None) -> None:
    producers = Producers("orders")
    commit(producers, CLAIM, "a")

    assert not producers.commit(wanted(NEWER, "b", content=content, check=EpochCheck.NONE))


def test_the_same_commit_again_is_the_same_whatever_it_says_of_its_content() -> None:
    producers = Producers("orders")
    commit(producers, CLAIM, "a")

    assert not producers.commit(wanted(CLAIM, "a", content=Content(99)))


def test_an_epoch_that_was_stored_without_its_content_is_compared_with_nothing() -> None:
    producers = Producers("orders")
    producers.restore([ProducerRecord("query", "orders", "run-1", 1, 0, "run-1", 1, digest(["a"]))], 1)

    assert not producers.commit(wanted(NEWER, "b", content=TEN, check=EpochCheck.CONTENT))


def test_a_run_that_repeats_an_epoch_twice_with_other_tokens_is_refused_the_second_time_also_after_a_restart() -> None:
    producers = Producers("orders")
    commit(producers, CLAIM, "a")
    repeat, second = wanted(NEWER, "b", content=TEN), wanted(NEWER, "c", content=TEN, check=EpochCheck.NONE)
    assert not producers.commit(repeat)
    told = producers.repeated(repeat)
    assert told is not None
    producers.keep(told, 1)

    for found in (producers, restarted(producers)):
        assert not found.commit(repeat)
        assert found.repeated(repeat) is None
        with refusal(Reason.EPOCH_CONFLICT, match="second write"):
            found.commit(second)
        assert not found.commit(wanted(replace(NEWER, run="run-3", ticket=3), "d", content=TEN))


def test_the_next_epoch_forgets_who_repeated_the_one_before() -> None:
    producers = Producers("orders")
    commit(producers, CLAIM, "a")
    told = producers.repeated(wanted(NEWER, "b"))
    assert told is not None
    producers.keep(told, 1)
    commit(producers, replace(NEWER, epoch=1), "c", content=Content(3))

    assert producers.known["query"].repeated_by == producers.known["query"].repeated_tokens == ""
    assert producers.known["query"].content == Content(3)


def test_a_lower_epoch_is_fenced_and_a_gap_upwards_is_fine() -> None:
    producers = Producers("orders")
    commit(producers, replace(CLAIM, epoch=7), "a")

    with refusal(Reason.EPOCH_FENCED):
        producers.commit(wanted(replace(CLAIM, epoch=6), "a"))
    assert producers.commit(wanted(replace(CLAIM, epoch=70), "a"))


def test_a_newer_run_that_came_while_a_commit_was_on_its_way_stays_the_newer_one() -> None:
    producers = Producers("orders")
    producers.stage(CLAIM)
    on_its_way = producers.committed(CLAIM, ["a"], 1, TEN)
    producers.stage(replace(NEWER, epoch=1))

    producers.keep(on_its_way, 1)

    found = producers.known["query"]
    assert (found.run, found.ticket, found.epoch, found.committed_by) == ("run-2", 2, 0, "run-1")


def test_a_write_name_belongs_to_who_has_committed_under_it() -> None:
    producers = Producers("orders")
    producers.stage(CLAIM)
    assert producers.holder("orders") is None
    commit(producers, CLAIM, "a")

    assert producers.holder("orders") == "query"
    for ask in (producers.stage, lambda claim: producers.commit(wanted(claim))):
        with refusal(Reason.PRODUCER_CHANGED):
            ask(OTHER)


def test_batches_have_no_name_that_another_could_take() -> None:
    producers = Producers("orders")
    commit(producers, replace(CLAIM, write_name=""), "a")

    assert not producers.stage(replace(OTHER, write_name=""))


@pytest.mark.parametrize("second_at_us", [5, 4], ids=["at the same time", "when the clock went back"])
def test_a_name_that_was_taken_over_stays_with_who_took_it_after_a_restart(second_at_us: int) -> None:
    for first, second in (("a", "b"), ("b", "a")):
        producers = Producers("orders")
        commit(producers, replace(CLAIM, producer=first), "t", at_us=5)
        commit(producers, replace(OTHER, producer=second, takeover=True), "u", at_us=second_at_us)

        again = restarted(producers, stage_of(replace(CLAIM, producer=first, epoch=1), number=8))

        assert again.holder("orders") == second
        with refusal(Reason.PRODUCER_CHANGED):
            again.stage(replace(CLAIM, producer=first, epoch=1))


def test_a_producer_that_took_a_name_over_keeps_it_after_a_restart_although_the_clock_went_back() -> None:
    producers = Producers("orders")
    commit(producers, CLAIM, "t", at_us=1_700_000_000_000_000)
    commit(producers, replace(OTHER, takeover=True), "u", at_us=1_000_000)
    commit(producers, replace(OTHER, epoch=1), "v", at_us=2_000_000)

    again = restarted(producers)

    assert again.holder("orders") == "other"
    assert again.commit(wanted(replace(OTHER, epoch=2), "w"))
    with refusal(Reason.PRODUCER_CHANGED):
        again.stage(replace(CLAIM, epoch=1))


def test_commit_times_rise_within_a_sink_over_a_restart_whatever_the_clock_says() -> None:
    producers = Producers("orders")
    commit(producers, CLAIM, "t", at_us=3_600_000_000)

    again = restarted(producers)
    commit(again, replace(CLAIM, producer="batch", write_name=""), "u", at_us=5)

    assert again.known["batch"].committed_at_us == 3_600_000_001


def test_no_step_of_the_wall_clock_makes_a_producer_old() -> None:
    producers = Producers("orders")
    commit(producers, replace(CLAIM, producer="batch", write_name=""), "a", at_us=1, now_us=50)

    assert producers.idle(set(), {"batch"}, oldest_us=50) == []
    assert [each.producer for each in producers.idle(set(), {"batch"}, oldest_us=51)] == ["batch"]


def test_a_stage_of_a_newer_run_fences_the_older_run_after_a_restart_and_leaves_the_name_with_its_holder() -> None:
    producers = Producers("orders")
    commit(producers, CLAIM, "a")

    again = restarted(producers, stage_of(replace(NEWER, epoch=1)))

    assert again.holder("orders") == "query"
    with refusal(Reason.EPOCH_FENCED):
        again.stage(replace(CLAIM, epoch=1))
    with refusal(Reason.PRODUCER_CHANGED):
        again.stage(OTHER)


def test_a_stage_of_an_older_run_changes_nothing_at_a_restart() -> None:
    producers = Producers("orders")
    commit(producers, NEWER, "a")

    again = restarted(producers, stage_of(replace(CLAIM, epoch=1)))

    assert again.known == producers.known


def test_a_producer_that_is_forgotten_gives_its_name_back() -> None:
    producers = Producers("orders")
    commit(producers, CLAIM, "a")

    producers.remove("query")

    assert producers.known == {}
    assert not producers.stage(OTHER)


def test_the_record_of_a_producer_holds_its_last_epoch() -> None:
    producers = Producers("orders")
    record = producers.committed(CLAIM, ["a"], 1, TEN)

    assert record == ProducerRecord("query", "orders", "run-1", 1, 0, "run-1", 1, digest(["a"]), 10, "kind:aa")


def test_a_producer_that_committed_nothing_and_stages_nothing_is_idle_at_once() -> None:
    producers = Producers("orders")
    producers.stage(CLAIM)

    assert [each.producer for each in producers.idle({"query"}, set(), 0)] == []
    assert [each.producer for each in producers.idle(set(), set(), 0)] == ["query"]


def test_a_batch_is_forgotten_after_a_time_and_when_no_page_of_it_is_left() -> None:
    producers = Producers("orders")
    commit(producers, replace(CLAIM, producer="batch", write_name=""), "a", now_us=5)
    commit(producers, CLAIM, "b", now_us=5)
    spent = {"batch", "query"}

    assert [each.producer for each in producers.idle(set(), spent, 5)] == []
    assert [each.producer for each in producers.idle(set(), spent, 6)] == ["batch"]
    assert [each.producer for each in producers.idle(set(), {"query"}, 6)] == []


def test_of_too_many_the_batches_go_first_and_of_these_the_longest_idle_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "PRODUCERS_MAX", 1)
    producers = Producers("orders")
    commit(producers, CLAIM, "a", at_us=1)
    for name, at_us in (("early", 3), ("late", 2)):  # the clock went back
        commit(producers, replace(CLAIM, producer=name, write_name=""), name, at_us=at_us)

    assert [each.producer for each in producers.idle(set(), set(producers.known), 0)] == ["early", "late"]


RESTORED_AT_US = 1_000


def restored(*committed: int) -> Producers:
    """Producers of a sink that was restored from a backup with these epochs."""
    producers = Producers("orders", RESTORED_AT_US)
    before = Producers("orders")
    for epoch in committed:
        commit(before, replace(CLAIM, epoch=epoch), "a", at_us=epoch + 1)
    producers.restore(before.known.values(), 1)
    return producers


def test_the_epoch_after_the_last_one_of_a_backup_continues() -> None:
    producers = restored(0, 1)

    producers.stage(replace(CLAIM, epoch=2))
    commit(producers, replace(CLAIM, epoch=2), "b", at_us=RESTORED_AT_US + 1)

    assert producers.commit(wanted(replace(CLAIM, epoch=9), "c"))


@pytest.mark.parametrize(("committed", "following"), [((0, 1), 3), ((0, 1), 9), ((), 1)])
def test_an_epoch_that_leaves_lost_ones_out_is_refused_after_a_restore(
    committed: tuple[int, ...], following: int
) -> None:
    producers = restored(*committed)
    claim = replace(CLAIM, epoch=following)

    for ask in (producers.stage, lambda claim: producers.commit(wanted(claim))):
        with refusal(Reason.EPOCH_AHEAD, match=f"ends before epoch {len(committed)}"):
            ask(claim)


def test_a_takeover_accepts_that_epochs_are_lost_and_the_next_needs_none() -> None:
    producers = restored(0, 1)
    commit(producers, replace(CLAIM, epoch=5, takeover=True), "b", at_us=RESTORED_AT_US + 1)

    assert producers.commit(wanted(replace(CLAIM, epoch=7), "c"))


def test_a_repeat_of_the_last_epoch_of_a_backup_is_known() -> None:
    producers = restored(0, 1)

    assert not producers.commit(wanted(replace(CLAIM, epoch=1), "a"))
    with refusal(Reason.ALREADY_COMMITTED):
        producers.stage(replace(CLAIM, epoch=1))


def test_a_sink_that_was_not_restored_lets_epochs_be_left_out() -> None:
    assert Producers("orders").commit(wanted(replace(CLAIM, epoch=4), "a"))
