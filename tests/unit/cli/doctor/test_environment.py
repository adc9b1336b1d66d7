"""Checks of the environment: extras and their versions, variables, limits."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import pytest

from forebay.cli.doctor.check import Grade
from forebay.cli.doctor.environment import extra_checks, machine_checks, package_checks, variable_checks

REQUIREMENTS = ("grpcio>=1.67", 'rich>=13; extra == "cli"', 'typer>=0.15; extra == "cli"', 'ruff; extra == "dev"')


def version_of(versions: dict[str, str], name: str) -> str:
    if name not in versions:
        raise PackageNotFoundError(name)
    return versions[name]


@pytest.mark.parametrize(
    ("versions", "grades", "said"),
    [
        ({"grpcio": "1.70", "rich": "14", "typer": "0.20"}, [Grade.OK, Grade.OK], "rich 14, typer 0.20"),
        ({"grpcio": "1.70", "rich": "14"}, [Grade.OK, Grade.OK], "not installed: typer missing"),
        ({"grpcio": "1.70", "rich": "12", "typer": "0.20"}, [Grade.OK, Grade.PROBLEM], "rich 12 is not >=13"),
        ({"grpcio": "1.70", "rich": "12"}, [Grade.OK, Grade.WARNING], "rich 12 is not >=13"),
        ({"rich": "14", "typer": "0.20"}, [Grade.PROBLEM, Grade.OK], "grpcio missing"),
    ],
)
def test_an_extra_is_installed_missing_or_out_of_bounds(
    versions: dict[str, str], grades: list[Grade], said: str
) -> None:
    found = list(extra_checks(REQUIREMENTS, lambda name: version_of(versions, name)))

    assert [(one.subject, one.grade) for one in found] == list(zip(["base", "extra cli"], grades, strict=True))
    assert any(said in one.text for one in found)
    assert all(one.advice for one in found if one.grade is not Grade.OK)


def test_this_environment_has_no_problem() -> None:
    assert [one for one in package_checks() if one.grade is Grade.PROBLEM and one.subject != "java"] == []


def test_an_unknown_variable_is_named_with_the_nearest_known_one() -> None:
    found = list(variable_checks({"FOREBAY_ENDPONT": "a:1", "FOREBAY_SINK_DEFAULTS__PARTITIONS": "4", "HOME": "/"}))

    assert [(one.grade, one.text, one.advice) for one in found[:1]] == [
        (Grade.WARNING, "FOREBAY_ENDPONT is not known", "did you mean FOREBAY_ENDPOINT?")
    ]
    assert [one.grade for one in found[1:]] == [Grade.OK]


def test_a_variable_that_the_client_rejects_is_a_problem() -> None:
    [found] = variable_checks({"FOREBAY_TLS": "perhaps"})

    assert (found.grade, "FOREBAY_TLS" in found.text) == (Grade.PROBLEM, True)


def test_limits_and_terminal_have_a_result() -> None:
    assert [one.subject for one in machine_checks()] == ["open files", "terminal"]
