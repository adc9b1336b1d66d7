"""A store beside Spark's checkpoint is named together with the query, and only for streams."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest

from forebay.client.positions.position import NAME, WRITE_MARK
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.checkpoint import NAME_MAX, CheckpointOptions
from forebay.spark.options.read import ReadOptions, read_options
from forebay.spark.options.write import WriteOptions, write_options

Parse = Callable[..., ReadOptions | WriteOptions]
both = pytest.mark.parametrize("parse", [read_options, write_options])


def given(**options: str) -> dict[str, str]:
    return {"sink": "orders", "checkpoint_store": "broker:", "checkpoint_name": "billing", **options}


@both
def test_a_query_without_a_store_has_spark_s_checkpoint_alone(parse: Parse) -> None:
    assert parse({"sink": "orders"}, {}, is_stream=True).checkpoint is None


@both
def test_a_store_and_a_name_are_enough_and_can_be_pickled(parse: Parse) -> None:
    found = parse(given(), {}, is_stream=True)

    assert found.checkpoint == CheckpointOptions("broker:", "billing", "spark")
    assert pickle.loads(pickle.dumps(found)) == found


@both
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"checkpoint_name": ""}, "checkpoint_name is not"),
        ({"checkpoint_store": ""}, "checkpoint_store is not"),
        ({"checkpoint_store": "", "checkpoint_name": "", "checkpoint_namespace": "a"}, "checkpoint_namespace is set"),
        ({"checkpoint_name": "a/b"}, "checkpoint_name is 'a/b'"),
        ({"checkpoint_name": "billing" + WRITE_MARK}, "checkpoint_name is 'billing.write'"),
        ({"checkpoint_name": "a" * (NAME_MAX + 1)}, "checkpoint_name is 'aaa"),
        ({"checkpoint_namespace": "../x"}, r"checkpoint_namespace is '\.\./x'"),
    ],
)
def test_an_incomplete_or_wrong_place_in_the_store_is_refused(
    parse: Parse, options: dict[str, str], message: str
) -> None:
    with pytest.raises(ForebaySparkError, match=message):
        parse(given(**options), {}, is_stream=True)


@both
def test_a_batch_has_no_position_to_save(parse: Parse) -> None:
    with pytest.raises(ForebaySparkError, match=r"checkpoint_store is only for a|Option checkpoint_store is only"):
        parse(given(), {}, is_stream=False)


def test_a_write_at_least_once_has_no_producer_to_pass_on() -> None:
    with pytest.raises(ForebaySparkError, match="requires delivery exactly_once"):
        write_options(given(delivery="at_least_once"), {}, is_stream=True)


def test_mode_resend_has_no_position() -> None:
    with pytest.raises(ForebaySparkError, match="no meaning with mode resend"):
        read_options(given(mode="resend", subscription="default"), {}, is_stream=True)


def test_the_longest_name_is_one_that_every_store_keeps_with_the_mark_of_a_write() -> None:
    assert NAME.fullmatch("a" * NAME_MAX + WRITE_MARK)
