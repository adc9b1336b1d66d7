"""Options are read once, and a wrong one says what is right."""

from __future__ import annotations

import pickle

import pytest

from forebay.client import EpochCheck
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.read import read_options, schema_options
from forebay.spark.options.write import Compression, Delivery, RepeatCheck, Rows, write_options
from tests.support.clients.addresses import ACCEPTED, REFUSED


def test_a_sink_is_enough() -> None:
    options = write_options({"sink": "orders"}, {})

    assert options.target.sink == "orders"
    assert options.target.endpoints == ("127.0.0.1:7461",)
    assert options.rows is Rows.AUTO
    assert options.delivery_timeout_s == 120.0
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize("check", RepeatCheck)
def test_a_micro_batch_that_is_run_again_is_compared_as_the_write_says(check: RepeatCheck) -> None:
    assert write_options({"sink": "orders"}, {}).epoch_check is RepeatCheck.RECORDS
    assert write_options({"sink": "orders", "epoch_check": check.value}, {}).epoch_check is check
    assert EpochCheck[check.name].name == check.name
    with pytest.raises(ForebaySparkError, match="epoch_check"):
        write_options({"sink": "orders", "epoch_check": "offsets"}, {})


def test_the_path_of_save_or_load_is_the_sink() -> None:
    assert write_options({"path": "orders"}, {}).target.sink == "orders"
    assert read_options({"path": "orders"}, {}).target.sink == "orders"


def test_two_names_for_the_sink_must_agree() -> None:
    assert write_options({"path": "orders", "sink": "orders"}, {}).target.sink == "orders"
    with pytest.raises(ForebaySparkError, match="Two sinks are named"):
        write_options({"path": "orders", "sink": "payments"}, {})


def test_a_write_without_a_sink_is_refused() -> None:
    with pytest.raises(ForebaySparkError, match="Option sink is not set") as error:
        write_options({"sink": " "}, {})

    assert str(error.value).splitlines()[-1].startswith('Add .option("sink"')


def test_the_option_wins_over_the_environment_which_wins_over_the_default() -> None:
    environment = {"FOREBAY_ENDPOINT": "one:1, two:2"}

    assert write_options({"sink": "a"}, environment).target.endpoints == ("one:1", "two:2")
    assert write_options({"sink": "a", "endpoint": "three:3"}, environment).target.endpoints == ("three:3",)


def test_several_addresses_of_one_broker_are_one_endpoint() -> None:
    options = write_options({"sink": "a", "endpoint": "ipv4:10.0.0.1:1,10.0.0.2:2,three:3"}, {})

    assert options.target.endpoints == ("ipv4:10.0.0.1:1,10.0.0.2:2", "three:3")


def test_a_stream_looks_longer_for_its_broker_by_default() -> None:
    assert write_options({"sink": "a"}, {}).target.connect_timeout_s == 10
    assert write_options({"sink": "a"}, {}, is_stream=True).target.connect_timeout_s == 30
    assert write_options({"sink": "a", "connect_timeout_s": "2"}, {}, is_stream=True).target.connect_timeout_s == 2


def test_members_of_a_fleet_stay_one_endpoint() -> None:
    given = write_options({"sink": "a", "endpoint": "forebay://one, two:2"}, {})

    assert given.target.endpoints == ("forebay://one:7461,two:2",)


@pytest.mark.parametrize(("typed", "endpoints"), ACCEPTED.items())
def test_an_address_means_what_it_means_for_a_client(typed: str, endpoints: tuple[str, ...]) -> None:
    assert write_options({"sink": "a", "endpoint": typed}, {}).target.endpoints == endpoints
    assert read_options({"sink": "a", "endpoint": typed}, {}).target.endpoints == endpoints


@pytest.mark.parametrize("endpoint", [*REFUSED, "host:99999"])
def test_an_endpoint_is_host_and_port(endpoint: str) -> None:
    with pytest.raises(ForebaySparkError, match="host:port"):
        write_options({"sink": "a", "endpoint": endpoint}, {})


@pytest.mark.parametrize("name", ["pagebytes", "page_bytes", "PageBytes", "pageBytes"])
def test_names_may_be_written_in_either_style(name: str) -> None:
    assert write_options({"sink": "a", name: "2048"}, {}).page_bytes == 2048


def test_an_unknown_option_is_named_with_what_there_is() -> None:
    with pytest.raises(ForebaySparkError, match="Option sync is unknown to a write") as error:
        write_options({"sync": "orders"}, {})

    assert "delivery_timeout_s" in error.value.remedy


def test_an_option_of_the_other_direction_says_so() -> None:
    with pytest.raises(ForebaySparkError, match="an option of a read"):
        write_options({"sink": "a", "startingoffsets": "earliest"}, {})
    with pytest.raises(ForebaySparkError, match="an option of a write"):
        read_options({"sink": "a", "linger_ms": "5"}, {})


def test_options_that_spark_adds_are_accepted() -> None:
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
        ("delivery", "at_most_once"),
        ("takeover", "perhaps"),
        ("epoch_from_query", "1"),
    ],
)
def test_a_value_out_of_bounds_is_named_with_its_bounds(name: str, value: str) -> None:
    with pytest.raises(ForebaySparkError, match=f"Option {name} is '{value}'") as error:
        write_options({"sink": "a", name: value}, {})

    assert str(error.value).splitlines()[-1].startswith("Set it to ")


def test_rows_are_written_exactly_once_by_default() -> None:
    options = write_options({"sink": "a"}, {})

    assert (options.delivery, options.write_name, options.takeover) == (Delivery.EXACTLY_ONCE, None, False)
    assert write_options({"sink": "a", "delivery": "at_least_once"}, {}).delivery is Delivery.AT_LEAST_ONCE


def test_a_stream_has_a_name_and_a_batch_only_inside_of_foreach_batch() -> None:
    assert write_options({"sink": "a", "write_name": "w"}, {}, is_stream=True).write_name == "w"
    assert write_options({"sink": "a", "write_name": "w", "epoch_from_query": "true"}, {}).write_name == "w"
    with pytest.raises(ForebaySparkError, match="write_name is for streams") as error:
        write_options({"sink": "a", "write_name": "w"}, {})

    assert "epoch_from_query" in error.value.remedy


@pytest.mark.parametrize("name", ["two words", "x" * 92, "é", "a/b"])
def test_a_write_name_is_short_and_plain(name: str) -> None:
    with pytest.raises(ForebaySparkError, match="write_name") as error:
        write_options({"sink": "a", "write_name": name}, {}, is_stream=True)

    assert "1 to 91" in error.value.remedy


def test_the_query_s_epoch_is_for_batches_that_are_written_exactly_once() -> None:
    assert write_options({"sink": "a", "epochFromQuery": "true"}, {}).epoch_from_query
    with pytest.raises(ForebaySparkError, match="a stream always"):
        write_options({"sink": "a", "epoch_from_query": "true"}, {}, is_stream=True)
    with pytest.raises(ForebaySparkError, match="requires delivery exactly_once"):
        write_options({"sink": "a", "epoch_from_query": "true", "delivery": "at_least_once"}, {})


def test_partitions_are_for_a_sink_that_is_made() -> None:
    assert write_options({"sink": "a", "create_sink": "true", "partitions": "4"}, {}).partitions == 4
    with pytest.raises(ForebaySparkError, match="only for a sink that this write creates"):
        write_options({"sink": "a", "partitions": "4"}, {})


@pytest.mark.parametrize("name", ["row_format", "rowFormat", "rows"])
def test_the_row_format_option_is_accepted_under_its_older_name(name: str) -> None:
    assert write_options({"sink": "a", name: "Arrow"}, {}).rows is Rows.ARROW


def test_the_two_names_of_one_option_must_agree() -> None:
    assert write_options({"sink": "a", "row_format": "json", "rows": "json"}, {}).rows is Rows.JSON
    with pytest.raises(ForebaySparkError, match="row_format is 'arrow' and its alias rows is 'json'"):
        write_options({"sink": "a", "row_format": "arrow", "rows": "json"}, {})


def test_pages_of_rows_are_not_compressed_unless_asked_for() -> None:
    assert write_options({"sink": "a"}, {}).arrow_compression is Compression.AUTO
    assert write_options({"sink": "a", "arrow_compression": "zstd"}, {}).arrow_compression is Compression.ZSTD


def test_the_columns_of_a_key_are_a_list_of_names() -> None:
    assert write_options({"sink": "a"}, {}).partition_by == ()
    assert write_options({"sink": "a", "partition_by": " Country, id ,"}, {}).partition_by == ("Country", "id")
    with pytest.raises(ForebaySparkError, match="partition_by is 'a,a'"):
        write_options({"sink": "a", "partition_by": "a,a"}, {})


def test_columns_with_a_dictionary_are_named_once() -> None:
    assert write_options({"sink": "a"}, {}).arrow_dictionary == ()
    assert write_options({"sink": "a", "arrowDictionary": "Country, auto"}, {}).arrow_dictionary == ("Country", "auto")
    with pytest.raises(ForebaySparkError, match="arrow_dictionary is 'a,a'"):
        write_options({"sink": "a", "arrow_dictionary": "a,a"}, {})


def test_the_columns_of_a_read_are_asked_for_before_a_write_too() -> None:
    options = schema_options({"sink": "a", "create_sink": "true", "startingOffsets": "latest"}, {})

    assert (options.target.sink, options.rows) == ("a", Rows.AUTO)
    assert schema_options({"sink": "a", "row_format": "record"}, {}).rows is Rows.RECORD
