"""The application of a process is found where its cluster manager names it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from forebay.spark.application import found_in

HOME = Path("/home/spark")


@pytest.mark.parametrize(
    ("environment", "folder", "expected"),
    [
        ({"SPARK_APPLICATION_ID": "spark-0123abcd"}, HOME, "spark-0123abcd"),
        ({"CONTAINER_ID": "container_1410901177871_0001_01_000005"}, HOME, "application_1410901177871_0001"),
        ({"CONTAINER_ID": "container_e17_1410901177871_0001_01_000005"}, HOME, "application_1410901177871_0001"),
        ({}, Path("/opt/spark/work/app-20261125071122-0003/7"), "app-20261125071122-0003"),
        ({}, HOME, ""),
        ({"SPARK_APPLICATION_ID": "<script>", "CONTAINER_ID": "elsewhere"}, HOME, ""),
    ],
)
def test_the_cluster_manager_names_the_application(environment: Mapping[str, str], folder: Path, expected: str) -> None:
    assert found_in(environment, folder) == expected
