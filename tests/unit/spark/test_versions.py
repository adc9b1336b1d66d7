"""A version of Spark that lacks something is named by an error, and none of its limits is silently ignored."""

from __future__ import annotations

import pyspark
import pytest

from forebay.spark import versions
from forebay.spark.errors import ForebaySparkError
from forebay.spark.source import ForebayDataSource

WHERE = {"endpoint": "127.0.0.1:1", "sink": "orders"}


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this Spark one that passes no start and asks for no limit."""
    monkeypatch.setattr(versions, "HAS_READ_LIMITS", False)
    monkeypatch.setattr(pyspark, "__version__", "4.1.4")


@pytest.mark.usefixtures("older")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_records_per_trigger": "10"}, "A limit of a micro-batch requires Spark 4.2"),
        ({"max_bytes_per_trigger": "10000"}, "A limit of a micro-batch requires Spark 4.2"),
        ({"mode": "resend", "subscription": "second"}, "mode=resend requires Spark 4.2"),
    ],
)
def test_an_option_that_this_spark_cannot_honour_is_refused(options: dict[str, str], said: str) -> None:
    source = ForebayDataSource({**WHERE, "row_format": "record", **options})

    with pytest.raises(ForebaySparkError, match=rf"{said} or newer; this is Spark 4\.1\.4"):
        source.streamReader(source.schema())


def test_without_python_data_sources_the_error_says_what_to_use_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "_VERSION", (3, 5))

    with pytest.raises(ForebaySparkError, match="write_atomically"):
        versions.require_data_sources()


def test_this_spark_has_what_the_newest_version_has() -> None:
    versions.require_data_sources()
    versions.require_read_limits("a limit", "")
    assert versions.HAS_UNIX_SOCKETS
    assert len(versions.SPATIAL_TYPES) == 2
    assert versions.DataSourceStreamArrowWriter.__module__ == "pyspark.sql.datasource"
