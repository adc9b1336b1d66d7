"""Run the jobs under every supported version of Spark: `python -m tests.spark_versions [VERSION...]`.

A broker of this checkout runs in this process; the wheel of this checkout is what the environments have. Exits with 1
when a version does not do what it should.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from forebay.client import testing
from tests.spark_versions.environments import MATRIX, ROOT, Environment, prepared, wheel
from tests.spark_versions.jobs import ROWS


def ran(environment: Environment, built: Path, folder: Path, *, any_python: bool) -> list[str]:
    """Run the jobs under one version; returns what is wrong."""
    try:
        python = prepared(environment, built, any_python=any_python)
    except LookupError as missing:
        return [str(missing)]
    with testing.broker() as broker:
        command = [str(python), str(ROOT / "tests/spark_versions/jobs.py"), broker.endpoint, str(folder)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            return [f"the jobs ended with {done.returncode}:", *(done.stdout + done.stderr).splitlines()[-40:]]
        found = json.loads((folder / "result.json").read_text())
        with broker.client() as client:
            held = {sink.name: client.sinks.stats(sink.name).records for sink in client.sinks.list()}
    return [
        f"{what}: {is_!r} is not {wanted!r}"
        for what, is_, wanted in _compared(environment, found, held)
        if is_ != wanted
    ]


def _compared(environment: Environment, found: dict[str, Any], held: dict[str, int]) -> list[tuple[str, Any, Any]]:
    both = [
        ("version", found["spark"], environment.spark),
        ("written together", (held["together"], held["together-2"]), (ROWS, ROWS)),
        ("written by foreachBatch, run twice", held["each-batch"], ROWS),
    ]
    if environment.minor < (4, 0):
        return [*both, ("advice", "requires Spark 4.0 or newer; this is Spark 3.5" in found["data_source"], True)]
    limited = found["limited"]
    return [
        *both,
        ("rows", found["arrow"], [ROWS, 0, 0]),
        ("rows as JSON", held["json"], ROWS),
        ("records", found["records"], ROWS),
        ("stream", found["stream"], ROWS),
        ("copied", found["copied"], ROWS),
        ("copied after a restart", found["copied_after_a_restart"], 2 * ROWS),
        ("copied again", found["copied_again"], 2 * ROWS),
        ("limit of a micro-batch", limited == "ok" or "requires Spark 4.2 or newer; this is" in limited, True),
        ("limit where the version has it", limited == "ok", environment.minor >= (4, 2)),
    ]


def main() -> int:
    """Run the matrix."""
    parser = argparse.ArgumentParser(description="Run the jobs of users under every supported version of Spark.")
    parser.add_argument("versions", nargs="*", help="only these, for example 4.0.5")
    parser.add_argument("--any-python", action="store_true", help="take the running Python where a version is missing")
    given = parser.parse_args()
    wanted = given.versions
    chosen = [one for one in MATRIX if not wanted or one.spark in wanted]
    failed = 0
    with tempfile.TemporaryDirectory() as place:
        built = wheel(Path(place))
        for environment in chosen:
            folder = Path(place, environment.spark)
            folder.mkdir()
            wrong = ran(environment, built, folder, any_python=given.any_python)
            failed += bool(wrong)
            print(f"spark {environment.spark}: {'; '.join(wrong[:1]) or 'ok'}", flush=True)
            print(*wrong[1:], sep="\n", end="\n" if wrong[1:] else "", flush=True)
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return int(failed > 0 or not chosen)


if __name__ == "__main__":
    sys.exit(main())
