"""Oracle of the Spark campaign, tested in every run; ``make fault-spark`` runs the campaign."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from forebay.client.testing import TestBroker
from tests.fault_spark.driver import Work, start
from tests.fault_spark.looker import watched
from tests.support.oracles.spark import CLEAN, NONE, Look, Verdict, judge

TWO_BATCHES = {0: [0, 1, 4], 1: [2, 3, 5, 6, 7]}
"""Of four rows each: the first and the second have rows in both partitions."""


def test_looks_that_see_all_of_a_batch_or_nothing_are_clean() -> None:
    looks = [
        Look(NONE, ((0, 0), (1, 0))),
        Look(NONE, ((0, 0), (1, 2))),  # committed in between
        Look(0, ((1, 2), (0, 3))),
        Look(1, ((0, 3), (1, 5))),
    ]

    assert judge(TWO_BATCHES, batches=2, batch_rows=4, looks=looks) == CLEAN


@pytest.mark.parametrize(
    "look",
    [
        Look(NONE, ((0, 2), (1, 0))),
        Look(NONE, ((1, 5), (0, 2))),
        Look(NONE, ((0, 1), (1, 0))),
        Look(NONE, ((0, 2), (1, 1))),
    ],
    ids=["a partition later", "the second of two", "a piece of a partition", "a piece of a later one"],
)
def test_a_look_that_sees_a_part_of_a_batch_is_torn(look: Look) -> None:
    verdict = judge(TWO_BATCHES, batches=2, batch_rows=4, looks=[look])

    assert verdict.torn == ({1} if look.ends[0] == (1, 5) else {0})


def test_a_batch_in_two_pieces_a_lost_a_doubled_and_a_foreign_row_are_found() -> None:
    verdict = judge({0: [0, 4, 1], 1: [2, 2, 99]}, batches=2, batch_rows=4, looks=[])

    assert verdict == Verdict(lost=4, doubled=1, foreign=1, torn=frozenset({0}), forgotten=frozenset())


def test_a_batch_that_spark_called_committed_and_no_reader_sees_is_forgotten() -> None:
    verdict = judge(TWO_BATCHES, batches=2, batch_rows=4, looks=[Look(1, ((0, 2), (1, 2)))])

    assert verdict.forgotten == {1}


def test_a_query_that_writes_at_least_once_is_found_torn(
    spark: SparkSession, broker: TestBroker, tmp_path: Path
) -> None:
    work = Work(
        endpoint=broker.endpoint,
        checkpoint=str(tmp_path / "checkpoint"),
        folder=str(tmp_path),
        delivery="at_least_once",
        pause_ms=100,
        to_the_end=True,
    )

    with (
        pytest.raises(AssertionError, match=r"torn=frozenset\(\{0\}\)"),
        watched(broker.endpoint, work, partitions=3),
    ):
        start(spark, work).awaitTermination()
