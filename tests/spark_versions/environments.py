"""Virtual environments with one version of Spark each, and with libraries of its time.

An environment is made once and kept in `.venvs`; Forebay itself is reinstalled from the wheel each time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / ".venvs"


@dataclass(frozen=True, slots=True)
class Environment:
    """One row of the matrix."""

    spark: str
    python: str
    """Interpreter that it is made with."""

    libraries: tuple[str, ...]
    """Requirements of pip."""

    @property
    def minor(self) -> tuple[int, int]:
        """Return the version of Spark without its patch."""
        major, minor, _ = self.spark.split(".")
        return int(major), int(minor)

    @property
    def executable(self) -> Path:
        """Return the interpreter of the environment."""
        return FOLDER / f"spark-{self.spark}" / "bin" / "python"


MATRIX: Final = (
    Environment(
        "3.5.9", "python3.11", ("pandas==2.2.*", "pyarrow==18.*", "numpy<2", "protobuf==5.29.*", "grpcio==1.67.*")
    ),
    Environment("4.0.5", "python3.11", ("pandas==2.2.*", "pyarrow==18.*", "protobuf==5.29.*", "grpcio==1.67.*")),
    Environment("4.1.4", "python3.12", ("pandas==2.*", "pyarrow==21.*", "protobuf==6.*", "grpcio==1.76.*")),
    Environment("4.2.1", "python3.13", ("pandas==3.*", "pyarrow", "protobuf==6.*", "grpcio")),
    Environment("4.3.0", "python3.12", ("pandas==2.*", "pyarrow", "protobuf==7.*", "grpcio")),
)
"""The newest patch of each version."""


def wheel(folder: Path) -> Path:
    """Build the wheel that is tested."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir"]
    subprocess.run([*command, str(folder), str(ROOT)], check=True)
    (built,) = folder.glob("forebay-*.whl")
    return built


def prepared(environment: Environment, built: Path, *, any_python: bool = False) -> Path:
    """Install an environment and the wheel in it; returns its interpreter.

    Raises:
        LookupError: the interpreter of that version is nowhere, and ``any_python`` does not allow the running one.
    """
    done = environment.executable.parents[1] / ".installed"
    found = interpreter(environment.python)
    if found is None and not any_python:
        raise LookupError(f"{environment.python} was not found: install it, or allow the running one with --any-python")
    wanted = "\n".join([environment.spark, str(found or sys.executable), *environment.libraries])
    if not done.exists() or done.read_text() != wanted:
        shutil.rmtree(environment.executable.parents[1], ignore_errors=True)
        subprocess.run([found or sys.executable, "-m", "venv", str(environment.executable.parents[1])], check=True)
        _install(environment, f"pyspark=={environment.spark}", *environment.libraries)
        done.write_text(wanted)
    _install(environment, "--force-reinstall", "--no-deps", str(built))
    _install(environment, *environment.libraries, "py4j", "googleapis-common-protos", "opentelemetry-api")
    return environment.executable


def interpreter(name: str) -> Path | None:
    """Find an interpreter by its name, for example ``python3.12``: on the path, or installed by pyenv or uv.

    pyenv leaves stand-ins on the path for versions that are installed and not selected; they do not run.
    """
    on_path = shutil.which(name)
    version = name.removeprefix("python")
    installed = (
        *Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob(f"versions/{version}*/bin/{name}"),
        *Path.home().glob(f".local/share/uv/python/cpython-{version}*/bin/{name}"),
    )
    for candidate in (*([Path(on_path)] if on_path else []), *sorted(installed, reverse=True)):
        if _works(candidate):
            return candidate
    return None


def _works(candidate: Path) -> bool:
    """Tell whether an interpreter runs and can make environments."""
    command = [str(candidate), "-c", "import ensurepip, venv"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _install(environment: Environment, *what: str) -> None:
    subprocess.run([str(environment.executable), "-m", "pip", "install", "--quiet", *what], check=True)
