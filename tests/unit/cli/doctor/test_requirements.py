"""Requirements are read as the distribution states them, and compared by release numbers."""

from __future__ import annotations

import pytest

from forebay.cli.doctor.requirements import Requirement, by_extra


@pytest.mark.parametrize(
    ("bounds", "version", "fits"),
    [
        (">=2.2,<4", "2.2", True),
        (">=2.2,<4", "2.10.1", True),
        (">=2.2,<4", "4.0.0", False),
        (">=2.2,<4", "2.1.9", False),
        (">=0.66b2", "0.66b2", True),
        (">=3.11,<3.15", "3.11.7", True),
        (">=3.11,<3.15", "3.15.0", False),
        ("==1.2", "1.2.0", True),
        ("!=1.2", "1.2", False),
        (">1,<=2", "2.0", True),
        ("~=1.4", "1.9", True),
        ("~=1.4", "2.0", False),
        ("", "1", True),
    ],
)
def test_a_version_is_compared_with_the_bounds(bounds: str, version: str, fits: bool) -> None:
    assert Requirement("x", bounds).is_met_by(version) is fits


def test_requirements_are_grouped_by_extra_without_those_of_other_platforms() -> None:
    found = by_extra(
        [
            "grpcio>=1.67",
            'pyspark[sql]<4.4,>=4.0; extra == "spark"',
            'uvloop>=0.21; sys_platform != "win32" and extra == "broker"',
        ],
        "win32",
    )

    assert found == {"": (Requirement("grpcio", ">=1.67"),), "spark": (Requirement("pyspark", "<4.4,>=4.0"),)}
