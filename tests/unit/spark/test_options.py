"""Options are read once, and a wrong one says what is right."""

from __future__ import annotations

import pickle

import pytest

from holdfast.spark.errors import HoldfastSparkError
from holdfast.spark.options import Rows, write_options
from holdfast.spark.read_options import read_options


def test_a_sink_is_enough() -> None:
    options = write_options({"sink": "orders"}, {})

    assert options.target.sink == "orders"
    assert options.target.endpoints == ("127.0.0.1:7461",)
    assert options.rows is Rows.AUTO
    assert options.delivery_timeout_s == 120.0
    assert pickle.loads(pickle.dumps(options)) == options


def test_the_path_of_save_or_load_is_the_sink() -> None:
    assert write_options({"path": "orders"}, {}).target.sink == "orders"
    assert read_options({"path": "orders"}, {}).target.sink == "orders"


def test_two_names_for_the_sink_must_agree() -> None:
    assert write_options({"path": "orders", "sink": "orders"}, {}).target.sink == "orders"
    with pytest.raises(HoldfastSparkError, match="Two sinks are named"):
        write_options({"path": "orders", "sink": "payments"}, {})


def test_a_write_without_a_sink_is_refused() -> None:
    with pytest.raises(HoldfastSparkError, match="No sink is named") as error:
        write_options({"sink": " "}, {})

    assert str(error.value).splitlines()[-1].startswith('Add .option("sink"')


def test_the_option_wins_over_the_environment_which_wins_over_the_default() -> None:
    environment = {"HOLDFAST_ENDPOINT": "one:1, two:2"}

    assert write_options({"sink": "a"}, environment).target.endpoints == ("one:1", "two:2")
    assert write_options({"sink": "a", "endpoint": "three:3"}, environment).target.endpoints == ("three:3",)


def test_a_stream_looks_longer_for_its_broker_unless_told_otherwise() -> None:
    assert write_options({"sink": "a"}, {}).target.connect_timeout_s == 10
    assert write_options({"sink": "a"}, {}, is_stream=True).target.connect_timeout_s == 30
    assert write_options({"sink": "a", "connect_timeout_s": "2"}, {}, is_stream=True).target.connect_timeout_s == 2


@pytest.mark.parametrize("endpoint", ["somewhere", "http://host:7461", "host:", "host:0", "host:99999", ":7461"])
def test_an_endpoint_is_host_and_port(endpoint: str) -> None:
    with pytest.raises(HoldfastSparkError, match="host:port"):
        write_options({"sink": "a", "endpoint": endpoint}, {})


@pytest.mark.parametrize("name", ["pagebytes", "page_bytes", "PageBytes", "pageBytes"])
def test_names_may_be_written_in_either_style(name: str) -> None:
    assert write_options({"sink": "a", name: "2048"}, {}).page_bytes == 2048


def test_an_unknown_option_is_named_with_what_there_is() -> None:
    with pytest.raises(HoldfastSparkError, match="Option sync is unknown to a write") as error:
        write_options({"sync": "orders"}, {})

    assert "delivery_timeout_s" in error.value.remedy


def test_an_option_of_the_other_direction_says_so() -> None:
    with pytest.raises(HoldfastSparkError, match="belongs to a read"):
        write_options({"sink": "a", "startingoffsets": "earliest"}, {})
    with pytest.raises(HoldfastSparkError, match="belongs to a write"):
        read_options({"sink": "a", "linger_ms": "5"}, {})


def test_what_spark_adds_is_not_ours_to_judge() -> None:
    given = {"sink": "a", "checkpointlocation": "/c", "queryname": "q", "__partition_columns": "[]", "option.x": "y"}

    assert write_options(given, {}).target.sink == "a"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("page_bytes", "1023"),
        ("page_bytes", "1048577"),
        ("page_bytes", "many"),
        ("page_bytes", "-5"),
        ("window_pages", "0"),
        ("window_pages", "257"),
        ("linger_ms", "1.5"),
        ("delivery_timeout_s", "0"),
        ("delivery_timeout_s", "nan"),
        ("delivery_timeout_s", "soon"),
        ("create_sink", "yes"),
        ("rows", "avro"),
    ],
)
def test_a_value_out_of_bounds_is_named_with_its_bounds(name: str, value: str) -> None:
    with pytest.raises(HoldfastSparkError, match=f"Option {name} is '{value}'") as error:
        write_options({"sink": "a", name: value}, {})

    assert str(error.value).splitlines()[-1].startswith("Set it to ")


def test_partitions_are_for_a_sink_that_is_made() -> None:
    assert write_options({"sink": "a", "create_sink": "true", "partitions": "4"}, {}).partitions == 4
    with pytest.raises(HoldfastSparkError, match="only for a sink that this write makes"):
        write_options({"sink": "a", "partitions": "4"}, {})
