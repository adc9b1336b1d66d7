"""Options for sizes and durations keep their unit and their bounds."""

from __future__ import annotations

import pytest
import typer

from forebay.cli import run
from forebay.cli.exits import ExitCode
from forebay.cli.quantities import duration, size


def test_options_keep_their_unit_and_their_bounds() -> None:
    assert duration(unit_s=0.001)("2s") == 2000
    assert duration(unit_s=0.001)("250") == 250
    assert duration(unit_s=86_400)("12h") == 0.5
    assert size(1, 1 << 20)("1MiB") == 1 << 20
    with pytest.raises(typer.BadParameter, match="'2MiB': must be 1 to 1048576 bytes"):
        size(1, 1 << 20)("2MiB")
    with pytest.raises(typer.BadParameter, match="'0': must be at least 1 bytes"):
        size(1)("0")
    with pytest.raises(typer.BadParameter, match=r"'2h': must be 0\.1 to 3600 s"):
        duration(0.1, 3600)("2h")


@pytest.mark.parametrize(
    "words",
    [
        ["bench", "--record-bytes", "2MiB"],
        ["deliver", "orders", "--to", "console", "--batch-bytes", "0"],
        ["lag", "--interval", "2h"],
        ["sink", "create", "orders", "--set", "max_total_bytes=10 apples"],
        ["sink", "create", "orders", "--set", "max_age_s=1y"],
        ["serve", "--set", "drain_s=1y"],
        ["serve", "--set", "sink_defaults.max_total_bytes=10G"],
        ["deliver", "orders", "--to", "http://127.0.0.1:1", "-O", "timeout_s=soon"],
        ["dlq", "list", "orders", "--since", "yesterday"],
        ["replay", "orders", "--start-time", "12"],
        ["subscription", "seek", "orders", "default", "--to", "1y"],
    ],
    ids=" ".join,
)
def test_a_quantity_that_is_none_is_wrong_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == ExitCode.USAGE
    said = capsys.readouterr().err.replace("│", " ")
    assert "must be" in " ".join(said.split())
