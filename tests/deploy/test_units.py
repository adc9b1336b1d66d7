"""The systemd units, read by systemd."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.deploy.conftest import DEPLOY

UNITS: Final = sorted((DEPLOY / "systemd").glob("*.service"))
NAMES: Final = [unit.stem for unit in UNITS]
PROGRAM: Final = re.compile(r"^Exec\w+=/(\S+)", re.MULTILINE)
EXPOSURE_MAX: Final = 20
"""Exposure, in tenths, above which systemd's own assessment of a sandbox fails; 100 is none."""


def program(name: str) -> str:
    """Return the path of a program of systemd; skips the test where there is none."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} was not found")
    return found


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Return a root folder with the units and the programs that they start."""
    units = tmp_path / "etc" / "systemd" / "system"
    units.mkdir(parents=True)
    for unit in UNITS:
        shutil.copy(unit, units)
    for started in {line for unit in UNITS for line in PROGRAM.findall(unit.read_text(encoding="utf-8"))}:
        file = tmp_path / started
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("#!/bin/sh\n", encoding="utf-8")
        file.chmod(0o755)
    return tmp_path


def verified(unit: Path, installed: Path) -> subprocess.CompletedProcess[str]:
    """Verify an installed unit with systemd."""
    options = [f"--root={installed}", "--man=no", "--recursive-errors=no"]
    command = [program("systemd-analyze"), "verify", *options, unit.name]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_every_unit_is_there() -> None:
    assert NAMES == ["forebay-broker", "forebay-broker@", "forebay-deliveries"]


def test_a_broker_of_a_shard_differs_from_one_broker_in_what_its_instance_names() -> None:
    """Sandbox, limits and restarts are the same: one file is changed with the other."""
    one, shard = (
        [line for line in unit.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
        for unit in UNITS[:2]
    )

    changed = [line.partition("=")[0] for line in shard if line not in one]

    assert [line.partition("=")[0] for line in one if line not in shard] == ["Description", "ExecStart"]
    assert changed == ["Description", "EnvironmentFile", "ExecStart"]
    assert all("%i" in line for line in shard if line not in one)


@pytest.mark.parametrize("instance", ["a", "b-2"])
def test_systemd_accepts_an_instance_for_each_shard(instance: str, installed: Path) -> None:
    done = verified(Path(f"forebay-broker@{instance}.service"), installed)

    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("unit", UNITS, ids=NAMES)
def test_systemd_accepts_the_unit(unit: Path, installed: Path) -> None:
    done = verified(unit, installed)

    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_an_unknown_setting_of_a_unit_is_found(installed: Path) -> None:
    unit = installed / "etc" / "systemd" / "system" / UNITS[0].name
    unit.write_text(unit.read_text(encoding="utf-8").replace("UMask=", "Umasks="), encoding="utf-8")
    done = verified(unit, installed)

    assert "Umasks" in done.stderr


@pytest.mark.parametrize("unit", UNITS, ids=NAMES)
def test_only_the_main_process_of_a_unit_starts_forebay(unit: Path) -> None:
    text = unit.read_text(encoding="utf-8")

    started = {line.partition("=")[0] for line in re.findall(r"^Exec\w+=/opt/forebay/.*", text, re.MULTILINE)}

    assert "RestartPreventExitStatus=2 3 6\n" in text
    assert started == {"ExecStart"}, "systemd restarts a unit whatever the exit code of a command before the main one"


@pytest.mark.parametrize("unit", UNITS, ids=NAMES)
def test_the_sandbox_of_a_unit_is_tight(unit: Path) -> None:
    command = [
        program("systemd-analyze"),
        "security",
        "--offline=yes",
        f"--threshold={EXPOSURE_MAX}",
        "--no-pager",
        str(unit),
    ]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout


def test_the_account_of_the_units_can_be_created(tmp_path: Path) -> None:
    file = DEPLOY / "systemd" / "forebay.sysusers"
    command = [program("systemd-sysusers"), "--dry-run", f"--root={tmp_path}", str(file)]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert "forebay" in done.stderr + done.stdout
