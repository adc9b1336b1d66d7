"""Options of ``ForeachPublisher`` are those of a write that have an effect there."""

from __future__ import annotations

import pickle

import pytest

from forebay.client.settings import PublisherSettings
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.foreach import FOREACH_OPTIONS, foreach_options
from forebay.spark.options.write import WRITE_OPTIONS


def test_defaults_are_those_of_a_publisher() -> None:
    options = foreach_options({"sink": "orders"}, {"FOREBAY_ENDPOINT": "one"})
    usual = PublisherSettings()

    assert (options.target.sink, options.target.endpoints) == ("orders", ("one:7461",))
    assert (options.linger_ms, options.page_bytes) == (usual.linger_ms, usual.page_bytes)
    assert (options.window_pages, options.delivery_timeout_s) == (usual.window_pages, usual.delivery_timeout_s)
    assert pickle.loads(pickle.dumps(options)) == options


def test_an_option_is_taken_in_both_styles() -> None:
    given = {"sink": "orders", "lingerMs": "7", "page_bytes": "2048", "createSink": "true", "partitions": "2"}

    options = foreach_options(given, {})

    assert (options.linger_ms, options.page_bytes) == (7, 2048)
    assert (options.create_sink, options.partitions) == (True, 2)


@pytest.mark.parametrize("name", sorted(set(WRITE_OPTIONS) - set(FOREACH_OPTIONS)))
def test_each_other_option_of_a_write_is_refused_with_those_that_apply(name: str) -> None:
    with pytest.raises(ForebaySparkError, match=f"Option {name} has no effect") as error:
        foreach_options({"sink": "orders", name: "true"}, {})

    assert "linger_ms" in error.value.remedy


def test_each_option_is_one_of_a_write() -> None:
    assert set(FOREACH_OPTIONS) <= set(WRITE_OPTIONS)
