"""Check for the Java version that Spark requires, made before any process is started."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

JAVA_VERSION_MIN: Final = 17
"""Minimum Java version of Spark 4."""


class JavaMissing(Exception):
    """No suitable Java is installed. Install one, or set JAVA_HOME."""

    def __init__(self, found: str, least: int) -> None:
        super().__init__(
            f"Spark needs Java {least} or newer and {found}; "
            "install one (Debian, Ubuntu: apt install openjdk-17-jre-headless) or set JAVA_HOME"
        )


def require_java(least: int = JAVA_VERSION_MIN) -> int:
    """Return the major version of the Java that Spark would use. Raises `JavaMissing`."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    if shutil.which(java) is None:
        raise JavaMissing(f"{java} was not found", least)
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    version = major_version(answer.stderr + answer.stdout)
    if version is None or version < least:
        raise JavaMissing(f"{java} is version {version or 'unknown'}", least)
    return version


def major_version(text: str) -> int | None:
    """Return the major version in the output of ``java -version``; 8 for the old form 1.8."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if found is None:
        return None
    major, minor = int(found[1]), int(found[2] or 0)
    return minor if major == 1 else major
