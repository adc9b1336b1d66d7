"""Settings of a broker on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.cli import run
from forebay.cli.exits import ExitCode


@pytest.mark.parametrize(
    ("pair", "problem"),
    [
        ("sinks_max=0", "sinks_max = '0': "),
        ("sinks_max", "'sinks_max' is not NAME=VALUE"),
        ("config=forebay.toml", "config: unknown setting"),
        ("sink_defaults.partitions=0", "partitions = 0: must be 1 to 1,024"),
        ("sink_defaults.colour=red", "sink_defaults.colour: unknown setting"),
    ],
)
def test_a_wrong_setting_is_named_and_nothing_is_started(
    pair: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["serve", "--data-dir", str(tmp_path / "data"), "-s", pair]) == ExitCode.USAGE

    assert problem in capsys.readouterr().err
    assert not (tmp_path / "data").exists()
