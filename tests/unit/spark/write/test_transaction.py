"""Commits and aborts of the driver, on a real broker and without Spark."""

from __future__ import annotations

import logging
import socket
import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forebay.client import Client, EpochCheck, Stage, errors
from forebay.client.testing import TestBroker
from forebay.errors.reasons import Reason
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.write import Target, WriteOptions, write_options
from forebay.spark.write import transaction
from forebay.spark.write.content import RowContent
from forebay.spark.write.epochs import StagedAttempt, WriteRun, own_id, stage_of
from tests.support.proxies.commits import CommitProxy
from tests.support.refusals import failure

QUERY = "b1946ac9-2492-4d23-9f0e-0123456789ab"
NOTHING: dict[str, str] = {}
"""Task properties of a batch."""


def options(endpoint: str, **given: str) -> WriteOptions:
    return write_options({"sink": "orders", "endpoint": endpoint, **given}, {}, is_stream=True)


@pytest.fixture
def client(broker: TestBroker) -> Iterator[Client]:
    with broker.client() as made:
        made.sinks.create("orders", partitions=2)
        yield made


@pytest.fixture
def target(broker: TestBroker) -> Target:
    return options(broker.endpoint).target


def attempt(client: Client, stage: Stage, *rows: bytes) -> StagedAttempt:
    """Stage rows as one attempt of a task."""
    with client.publisher("orders", stage=stage) as publisher:
        publisher.send_many(rows, partition=0)
        publisher.flush()
        return StagedAttempt(stage, publisher.staged().parts, content=content_of(*rows))


def content_of(*rows: bytes) -> RowContent:
    """Return a content that is the same whatever the order of the rows."""
    return RowContent(len(rows), sum(map(len, rows)))


def run_of(client: Client, name: str = "run-1", *, epoch: int = 0) -> Stage:
    """Return a stage of a run that begins now."""
    ticket = client.epochs.take_ticket("orders")
    return Stage(producer=f"{QUERY}:orders", write_name="orders", epoch=epoch, run=name, ticket=ticket)


def again(stage: Stage) -> Stage:
    """Return the stage of another attempt of the same run and epoch."""
    return replace(stage, token=stage.token[::-1] + "x")


def values(client: Client) -> list[bytes]:
    return [record.value for record in client.replay("orders", partition=0, on_gap="yield") if hasattr(record, "value")]


def test_only_the_attempt_that_spark_accepted_becomes_visible(client: Client, target: Target) -> None:
    stage = run_of(client)
    attempt(client, stage, b"half")
    whole = attempt(client, again(stage), b"half", b"other half")

    transaction.commit([(target, [whole])], patience_s=5)

    assert values(client) == [b"half", b"other half"]
    assert [one.staged_tokens for one in client.epochs.list("orders")] == [0]


def test_the_same_batch_committed_by_the_next_run_adds_nothing(client: Client, target: Target) -> None:
    transaction.commit([(target, [attempt(client, run_of(client), b"row")])], patience_s=5)
    after_a_restart = run_of(client, "run-2")

    with pytest.raises(errors.AlreadyCommitted):
        attempt(client, after_a_restart, b"row")
    transaction.commit([(target, [StagedAttempt(after_a_restart, already_committed=True)])], patience_s=5)

    assert values(client) == [b"row"]


@pytest.mark.parametrize("tasks", [1, 3])
def test_a_repeat_by_another_number_of_tasks_adds_nothing(client: Client, target: Target, tasks: int) -> None:
    stage = run_of(client)
    transaction.commit([(target, [attempt(client, stage, b"a", b"bb", b"ccc")])], patience_s=5)
    repeat = run_of(client, "run-2")
    parts = {1: [content_of(b"ccc", b"a", b"bb")], 3: [content_of(b"ccc"), content_of(), content_of(b"bb", b"a")]}
    counted = [StagedAttempt(again(repeat), already_committed=True, content=each) for each in parts[tasks]]
    counted = [replace(one, stage=replace(repeat, token=f"task-{at}")) for at, one in enumerate(counted)]

    assert transaction.commit([(target, counted)], patience_s=5).already_committed
    assert values(client) == [b"a", b"bb", b"ccc"]


def test_a_repeat_with_more_rows_is_refused_with_advice(client: Client, target: Target) -> None:
    transaction.commit([(target, [attempt(client, run_of(client), b"row")])], patience_s=5)
    anew = StagedAttempt(run_of(client, "run-2"), already_committed=True, content=content_of(b"row", b"more"))

    with pytest.raises(ForebaySparkError, match="EPOCH_CONTENT_CONFLICT") as error:
        transaction.commit([(target, [anew])], patience_s=5)

    assert "committed with 1 record, and the repeat has 2" in error.value.problem
    assert '.option("epoch_check", "none")' in error.value.remedy
    cause = error.value.__cause__
    assert isinstance(cause, errors.EpochContentConflict)
    assert (cause.stored_records, cause.sent_records) == (1, 2)
    accepted = [replace(anew, check=EpochCheck.NONE)]
    assert transaction.commit([(target, accepted)], patience_s=5).already_committed
    assert values(client) == [b"row"]


def test_a_repeat_with_other_rows_of_the_same_number_is_reported_and_refused_where_content_is_compared(
    client: Client, target: Target, caplog: pytest.LogCaptureFixture
) -> None:
    transaction.commit([(target, [attempt(client, run_of(client), b"row")])], patience_s=5)
    other = StagedAttempt(run_of(client, "run-2"), already_committed=True, content=content_of(b"other"))

    with pytest.raises(ForebaySparkError, match="EPOCH_CONTENT_CONFLICT"):
        transaction.commit([(target, [replace(other, check=EpochCheck.CONTENT)])], patience_s=5)
    assert transaction.commit([(target, [other])], patience_s=5).already_committed

    assert "epoch was repeated with other rows" in caplog.text
    assert values(client) == [b"row"]


def test_an_abort_after_a_commit_whose_answer_was_lost_changes_nothing(client: Client, target: Target) -> None:
    staged = [attempt(client, run_of(client), b"row")]
    transaction.commit([(target, staged)], patience_s=5)

    transaction.abort(target, staged)

    assert values(client) == [b"row"]


def test_q5_an_epoch_that_was_aborted_can_be_staged_and_committed_again(client: Client, target: Target) -> None:
    stage = run_of(client)
    transaction.abort(target, [attempt(client, stage, b"row")])
    assert [one.staged_tokens for one in client.epochs.list("orders")] == [0]

    transaction.commit([(target, [attempt(client, again(stage), b"row")])], patience_s=5)

    assert values(client) == [b"row"]


def test_discarded_stages_cannot_be_committed(client: Client, target: Target) -> None:
    staged = [attempt(client, run_of(client), b"row")]
    transaction.abort(target, staged)

    with pytest.raises(ForebaySparkError, match="STAGED_INCOMPLETE") as error:
        transaction.commit([(target, staged)], patience_s=5)

    assert "Run this again" in error.value.remedy
    assert values(client) == []


def test_an_epoch_without_a_row_is_committed_too(client: Client, target: Target) -> None:
    transaction.commit([(target, [attempt(client, run_of(client, epoch=4))])], patience_s=5)

    assert client.epochs.get("orders", f"{QUERY}:orders").epoch == 4


def test_a_checkpoint_that_is_behind_is_refused(client: Client, target: Target) -> None:
    transaction.commit([(target, [attempt(client, run_of(client, epoch=4), b"row")])], patience_s=5)
    behind = run_of(client, "run-2", epoch=3)

    with failure(Reason.EPOCH_FENCED):
        attempt(client, behind, b"again")
    with pytest.raises(ForebaySparkError, match="EPOCH_FENCED") as error:
        transaction.commit([(target, [StagedAttempt(behind)])], patience_s=5)

    assert "checkpoint is behind" in error.value.remedy
    assert values(client) == [b"row"]


def test_a_deleted_checkpoint_is_noticed_until_the_name_is_taken_over(client: Client, target: Target) -> None:
    transaction.commit([(target, [attempt(client, run_of(client), b"row")])], patience_s=5)
    anew = replace(run_of(client, "run-2"), producer=QUERY.replace("b", "c") + ":orders")

    with failure(Reason.PRODUCER_CHANGED):
        attempt(client, anew, b"row")
    transaction.commit([(target, [attempt(client, replace(anew, takeover=True), b"row")])], patience_s=5)

    assert values(client) == [b"row", b"row"]


def test_an_attempt_of_the_old_run_that_stages_late_harms_nothing(client: Client, target: Target) -> None:
    old = run_of(client)
    early = attempt(client, old, b"old")
    new = run_of(client, "run-2")
    staged = attempt(client, new, b"new")

    with failure(Reason.EPOCH_FENCED):
        attempt(client, again(old), b"late")
    with pytest.raises(ForebaySparkError, match="EPOCH_FENCED"):
        transaction.commit([(target, [early])], patience_s=5)
    transaction.commit([(target, [staged])], patience_s=5)

    assert values(client) == [b"new"]


def test_a_second_write_of_the_same_run_under_the_same_name_is_distinguished(client: Client, target: Target) -> None:
    stage = run_of(client)
    transaction.commit([(target, [attempt(client, stage)])], patience_s=5)  # it had no row
    second = again(stage)

    with pytest.raises(errors.AlreadyCommitted):
        attempt(client, second, b"row")
    with pytest.raises(ForebaySparkError, match="EPOCH_CONFLICT") as error:
        transaction.commit([(target, [StagedAttempt(second, already_committed=True)])], patience_s=5)

    assert "name of its own" in error.value.remedy


def test_nothing_staged_is_nothing_to_commit_or_to_abort() -> None:
    nowhere = options("127.0.0.1:1").target

    transaction.commit([(nowhere, [])], patience_s=5)
    transaction.abort(nowhere, [])


def test_writes_to_two_sinks_are_visible_at_one_instant_or_not_at_all(client: Client, target: Target) -> None:
    client.sinks.create("others")
    others = replace(target, sink="others")
    whole = attempt(client, run_of(client), b"row")
    theirs = replace(run_of(client), ticket=client.epochs.take_ticket("others"), token="theirs")
    with client.publisher("others", stage=theirs) as publisher:
        publisher.send(b"their row", partition=0)
        publisher.flush()
        staged = StagedAttempt(theirs, publisher.staged().parts)

    with pytest.raises(ForebaySparkError, match="STAGED_INCOMPLETE"):
        transaction.commit([(target, [whole]), (others, [replace(staged, stage=again(theirs))])], patience_s=5)
    before = values(client)
    done = transaction.commit(
        [(target, [whole]), (replace(others, sink="nowhere"), []), (others, [staged])], patience_s=5
    )

    assert before == []
    assert [epoch.sink for epoch in done.epochs] == ["orders", "others"]
    assert values(client) == [b"row"]
    assert client.sinks.stats("others").records == 1


def staged_in(client: Client, sink: str, run: str, ticket: int, epoch: int) -> StagedAttempt:
    """Stage the row of a micro-batch as the only task of a write, or count it where the epoch is committed."""
    stage = Stage(f"{QUERY}:{sink}", epoch, run=run, ticket=ticket, write_name=sink)
    row = b"%d" % epoch
    try:
        with client.publisher(sink, stage=stage) as publisher:
            publisher.send(row)
            publisher.flush()
            return StagedAttempt(stage, publisher.staged().parts, content=content_of(row))
    except errors.AlreadyCommitted:
        return StagedAttempt(stage, already_committed=True, content=content_of(row))


def test_a_repeated_micro_batch_may_have_a_write_that_its_first_run_did_not_have(
    client: Client, target: Target
) -> None:
    client.sinks.create("added")
    first = staged_in(client, "orders", "run-1", client.epochs.take_ticket("orders"), 7)
    transaction.commit([(target, [first])], patience_s=5)
    ticket = client.epochs.take_ticket("orders")
    repeat = [
        (replace(target, sink="added"), [staged_in(client, "added", "run-2", ticket, 7)]),
        (target, [staged_in(client, "orders", "run-2", ticket, 7)]),
    ]

    done = transaction.commit(repeat, patience_s=5)

    assert [epoch.sink for epoch in done.epochs] == ["added", "orders"]
    assert not done.already_committed
    assert [client.sinks.stats(sink).records for sink in ("orders", "added")] == [1, 1]
    assert transaction.commit(repeat, patience_s=5).already_committed


def test_a_write_beside_a_repeat_with_other_rows_is_not_committed(client: Client, target: Target) -> None:
    client.sinks.create("added")
    first = staged_in(client, "orders", "run-1", client.epochs.take_ticket("orders"), 7)
    transaction.commit([(target, [first])], patience_s=5)
    ticket = client.epochs.take_ticket("orders")
    added = (replace(target, sink="added"), [staged_in(client, "added", "run-2", ticket, 7)])
    repeat = replace(staged_in(client, "orders", "run-2", ticket, 7), content=content_of(b"7", b"more"))

    with pytest.raises(ForebaySparkError, match=r"commit to sink 'orders'.*EPOCH_CONTENT_CONFLICT"):
        transaction.commit([added, (target, [repeat])], patience_s=5)

    assert client.sinks.stats("added").records == 0


def test_a_second_write_of_a_micro_batch_is_refused_with_the_new_sink_beside_it(client: Client, target: Target) -> None:
    client.sinks.create("added")
    ticket = client.epochs.take_ticket("orders")
    transaction.commit([(target, [staged_in(client, "orders", "run-1", ticket, 7)])], patience_s=5)

    with pytest.raises(ForebaySparkError, match="EPOCH_CONFLICT"):
        transaction.commit(
            [
                (target, [staged_in(client, "orders", "run-1", ticket, 7)]),
                (replace(target, sink="added"), [staged_in(client, "added", "run-1", ticket, 7)]),
            ],
            patience_s=5,
        )

    assert client.sinks.stats("added").records == 0


def test_an_error_of_a_commit_names_the_sink_that_it_is_about(client: Client, target: Target) -> None:
    client.sinks.create("others")
    ticket = client.epochs.take_ticket("orders")
    writes = [
        (replace(target, sink=sink), [staged_in(client, sink, "run-1", ticket, 0)]) for sink in ("orders", "others")
    ]
    client.sinks.delete("others", force=True)

    with pytest.raises(ForebaySparkError, match=r"commit to sink 'others' at .*SINK_NOT_FOUND") as error:
        transaction.commit(writes, patience_s=5)

    assert "forebay sink create others" in error.value.remedy
    assert client.sinks.stats("orders").records == 0


RUNS = st.lists(
    st.tuples(st.sets(st.sampled_from("abc"), min_size=1).map(sorted), st.sampled_from(["dies", "commits", "ends"])),
    max_size=6,
)
"""Runs of a query: the sinks of its writes, and its end before the commit, after it, or after Spark's own log."""


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(runs=RUNS)
def test_each_sink_has_the_rows_of_a_micro_batch_once_whichever_sinks_its_runs_wrote(
    client: Client, target: Target, runs: list[tuple[list[str], str]]
) -> None:
    mark = uuid.uuid4().hex
    sinks = {letter: f"{letter}-{mark}" for letter in "abc"}
    for sink in sinks.values():
        client.sinks.create(sink)
    wanted: dict[str, list[bytes]] = {sink: [] for sink in sinks.values()}
    epoch = 0

    for number, (letters, end) in enumerate(runs):
        named = [sinks[letter] for letter in letters]
        ticket = client.epochs.take_ticket(named[0])
        staged = [
            (replace(target, sink=sink), [staged_in(client, sink, f"run-{number}", ticket, epoch)]) for sink in named
        ]
        if end == "dies":
            continue
        done = transaction.commit(staged, patience_s=5)
        row = b"%d" % epoch
        new = [sink for sink in named if row not in wanted[sink]]
        assert (done.already_committed, [one.sink for one in done.epochs]) == (not new, named)
        for sink in new:
            wanted[sink].append(row)
        epoch += end == "ends"

    for sink, rows in wanted.items():
        assert [record.value for record in client.replay(sink) if hasattr(record, "value")] == rows
        client.sinks.delete(sink, force=True)


def test_throwing_away_never_raises(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(transaction, "ABORT_PATIENCE_S", 0.2)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        nowhere = options(f"127.0.0.1:{probe.getsockname()[1]}").target
    with caplog.at_level(logging.WARNING, "forebay.spark"):
        transaction.abort(nowhere, [StagedAttempt(Stage("p", 0, "r", 1))])
        transaction.close(nowhere, WriteRun(1, batch="b"))

    assert caplog.text.count("left to staging_ttl") == 2


def test_a_batch_that_failed_is_closed_and_releases_its_room(client: Client, target: Target) -> None:
    run = WriteRun(client.epochs.take_ticket("orders"), batch=own_id())
    stage = stage_of(run, options("127.0.0.1:1"), NOTHING.get)
    attempt(client, stage, b"of an attempt that nobody knows of")

    transaction.close(target, run)

    assert client.sinks.stats("orders").staged_records == 0
    with pytest.raises(errors.AlreadyCommitted):
        attempt(client, again(stage), b"late")


def test_a_batch_whose_commit_was_made_after_all_stays(client: Client, target: Target) -> None:
    run = WriteRun(client.epochs.take_ticket("orders"), batch=own_id())
    stage = stage_of(run, options("127.0.0.1:1"), NOTHING.get)
    transaction.commit([(target, [attempt(client, stage, b"row")])], patience_s=5)

    transaction.close(target, run)

    assert values(client) == [b"row"]


def test_of_a_stream_nothing_is_closed() -> None:
    transaction.close(options("127.0.0.1:1").target, WriteRun(1, batch=None))


def test_a_write_at_least_once_begins_no_run() -> None:
    at_least_once = write_options({"sink": "orders", "endpoint": "127.0.0.1:1", "delivery": "at_least_once"}, {})

    assert transaction.begin_batch(at_least_once, "") is None
    assert transaction.begin_stream(at_least_once, "", patience_s=5) is None


def test_runs_are_distinguished_by_their_tickets(broker: TestBroker, client: Client) -> None:
    stream, batch = options(broker.endpoint), write_options({"sink": "orders", "endpoint": broker.endpoint}, {})
    first, second, third = (
        transaction.begin_stream(stream, "", patience_s=5),
        transaction.begin_batch(batch, ""),
        transaction.begin_batch(replace(batch, epoch_from_query=True), ""),
    )

    assert first is not None
    assert second is not None
    assert third is not None
    assert first.ticket < second.ticket < third.ticket
    assert (first.batch is None, second.batch is None, third.batch is None) == (True, False, True)


def test_a_commit_whose_answer_never_arrives_says_that_its_outcome_is_unknown_and_where_to_look(
    broker: TestBroker, client: Client
) -> None:
    stage = run_of(client)
    staged = attempt(client, stage, b"row")
    with CommitProxy(broker.endpoint) as proxy:
        proxy.hold("answer")
        with pytest.raises(ForebaySparkError) as unknown:
            transaction.commit([(options(proxy.endpoint).target, [staged])], patience_s=1)

    assert "outcome of a commit to sink 'orders'" in unknown.value.problem
    assert f"Client.epochs.get('orders', '{stage.producer}') returns epoch 0" in unknown.value.remedy
    assert client.epochs.get("orders", stage.producer).epoch == 0
    assert values(client) == [b"row"]
