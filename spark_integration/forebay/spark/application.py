"""Id of the Spark application that a process belongs to, as far as its cluster manager tells it.

Processes of Python data sources have no Spark context. Kubernetes and YARN name the application in the environment, a
standalone cluster in the working directory of an executor. In other processes the id is unknown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

_KUBERNETES: Final = "SPARK_APPLICATION_ID"
_YARN: Final = "CONTAINER_ID"
_CONTAINER: Final = re.compile(r"container_(?:e\d+_)?(\d+_\d+)_\d+_\d+")
_STANDALONE: Final = re.compile(r"app-\d{14}-\d+")
_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")


@cache
def application_id() -> str:
    """Return the id of this process's application, or an empty text."""
    return found_in(os.environ, Path.cwd())


def found_in(environment: Mapping[str, str], folder: Path) -> str:
    """Return the id that an environment or a working directory names, or an empty text."""
    named = environment.get(_KUBERNETES, "")
    if _ID.fullmatch(named):
        return named
    container = _CONTAINER.fullmatch(environment.get(_YARN, ""))
    if container is not None:
        return f"application_{container[1]}"
    return next((part for part in reversed(folder.parts) if _STANDALONE.fullmatch(part)), "")
