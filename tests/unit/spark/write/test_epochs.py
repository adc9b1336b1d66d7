"""Epoch of a task, from Spark's properties that do not change with a restart."""

from __future__ import annotations

import pickle
import re

import pytest

from forebay.client import StagedPart
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.write import WriteOptions, write_options
from forebay.spark.telemetry import BATCH_ID, QUERY_ID
from forebay.spark.write.epochs import RUN_ID, StagedAttempt, WriteRun, own_id, stage_of, write_name

QUERY = "b1946ac9-2492-4d23-9f0e-0123456789ab"
RUN = "c157a790-31e1-bc48-a1d2-abcdefabcdef"
TOLD = {QUERY_ID: QUERY, BATCH_ID: "17", RUN_ID: RUN}


def stream_options(**given: str) -> WriteOptions:
    return write_options({"sink": "orders", **given}, {}, is_stream=True)


def test_a_stream_writes_the_epoch_of_its_micro_batch() -> None:
    stage = stage_of(WriteRun(5, None), stream_options(takeover="true"), TOLD.get)

    assert (stage.producer, stage.write_name, stage.epoch) == (f"{QUERY}:orders", "orders", 17)
    assert (stage.run, stage.ticket, stage.takeover) == (RUN, 5, True)


def test_two_names_are_two_producers() -> None:
    stage = stage_of(WriteRun(5, None), stream_options(write_name="left"), TOLD.get)

    assert (stage.producer, stage.write_name) == (f"{QUERY}:left", "left")


def test_each_attempt_has_a_token_of_its_own() -> None:
    tokens = {stage_of(WriteRun(5, None), stream_options(), TOLD.get).token for _ in range(10)}

    assert len(tokens) == 10


def test_a_batch_is_a_producer_of_its_own_whatever_query_runs_it() -> None:
    batch = own_id()
    stage = stage_of(WriteRun(5, batch), write_options({"sink": "orders"}, {}), TOLD.get)

    assert (stage.producer, stage.write_name, stage.epoch, stage.run, stage.takeover) == (batch, "", 0, batch, False)
    assert re.fullmatch(r"[A-Za-z0-9._:-]{1,128}", batch)
    assert own_id() != batch


@pytest.mark.parametrize("missing", [QUERY_ID, BATCH_ID])
def test_outside_of_a_query_there_is_no_epoch_to_take(missing: str) -> None:
    told = {name: value for name, value in TOLD.items() if name != missing}

    with pytest.raises(ForebaySparkError, match="no query") as error:
        stage_of(WriteRun(5, None), stream_options(), told.get)

    assert "foreachBatch" in error.value.remedy


def test_a_job_group_of_the_user_s_hides_the_run() -> None:
    with pytest.raises(ForebaySparkError, match="job group of this write is 'nightly'"):
        stage_of(WriteRun(5, None), stream_options(), {**TOLD, RUN_ID: "nightly"}.get)


def test_a_long_sink_s_name_is_cut_and_stays_its_own() -> None:
    long = ["x" * 110 + end for end in ("a", "b")]
    names = [write_name(write_options({"sink": name}, {})) for name in long]

    assert [len(name) for name in names] == [91, 91]
    assert names[0] != names[1]
    assert len(stage_of(WriteRun(5, None), write_options({"sink": long[0]}, {}), TOLD.get).producer) == 128
    assert write_name(write_options({"sink": "x" * 91}, {})) == "x" * 91


def test_a_staged_attempt_can_be_pickled_for_the_driver() -> None:
    staged = StagedAttempt(stage_of(WriteRun(5, None), stream_options(), TOLD.get), (StagedPart(0, 1, 2),))

    assert pickle.loads(pickle.dumps(staged)) == staged
