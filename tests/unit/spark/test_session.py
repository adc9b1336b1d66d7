"""Sessions that have no driver in this process; those that have one are in `tests/spark`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.errors import PySparkAttributeError
from pyspark.sql import SparkSession

from forebay.spark.errors import ForebaySparkError
from forebay.spark.session import cluster_options, use_in_this_thread


class Connected:
    """A session of Spark Connect, in the one way in which it differs here."""

    def __getattr__(self, name: str) -> Any:
        raise PySparkAttributeError(errorClass="JVM_ATTRIBUTE_NOT_SUPPORTED", messageParameters={"attr_name": name})


CONNECTED = cast("SparkSession", Connected())


@pytest.fixture(autouse=True)
def without_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FOREBAY_TOKEN", raising=False)


def test_spark_connect_gets_the_endpoints() -> None:
    assert cluster_options(CONNECTED, endpoints=["one:7461", "two:7461"]) == {"endpoint": "one:7461,two:7461"}


def test_the_error_of_spark_connect_says_where_its_files_have_to_be(tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    authority.touch()

    with pytest.raises(ForebaySparkError, match="absolute paths"):
        cluster_options(CONNECTED, endpoints=["one:7461"], tls_ca=authority)


def test_the_error_of_spark_connect_says_how_to_name_its_token() -> None:
    with pytest.raises(ForebaySparkError, match="token_env"):
        cluster_options(CONNECTED, endpoints=["one:7461"], token_env="SOME_TOKEN")


def test_the_error_in_a_thread_of_spark_connect_says_that_it_needs_nothing() -> None:
    with pytest.raises(ForebaySparkError, match="Its threads need nothing"):
        use_in_this_thread(CONNECTED)
