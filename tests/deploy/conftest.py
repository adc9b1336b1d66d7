"""The Helm chart, rendered by Helm."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

DEPLOY: Final = Path(__file__).resolve().parents[2] / "deploy"
CHART: Final = DEPLOY / "helm" / "forebay"
KUBERNETES: Final = "1.34.0"
"""Version that Helm renders for; one built from its module knows none."""


def helm(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run Helm; the test fails where it is missing."""
    found = shutil.which("helm")
    if found is None:
        pytest.fail("helm was not found: run make test-deploy, which builds it")
    return subprocess.run(
        [found, *words, "--kube-version", KUBERNETES],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def rendered(*values: str | Path) -> list[dict[str, Any]]:
    """Return the manifests that the chart gives for value files."""
    done = helm(
        "template", "events", CHART, "--namespace", "data", *(word for file in values for word in ("--values", file))
    )
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def one(manifests: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """Return the only manifest of a kind."""
    [found] = [each for each in manifests if each["kind"] == kind]
    return found
